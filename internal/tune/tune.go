// Package tune chooses a learner's hyperparameters on the first examples of a
// stream: successive halving over a grid (Jamieson and Talwalkar, "Non-stochastic
// Best Arm Identification and Hyperparameter Optimization", AISTATS 2016). Each
// candidate is scored by cross-validation, either by training the learner or with the
// learner's shortcut (algos.CrossValidator).
//
// The only knowledge about a learner is which options its Spec declares as tuned. Work
// is bounded by counts, and the result is a function of the arguments: time and the
// number of processors do not matter.
package tune

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/par"
	"github.com/streamsvm/streamsvm/stream"
)

const (
	numFolds      = 3    // folds of the cross-validation
	maxRungs      = 3    // rungs of successive halving
	maxCandidates = 64   // points of the grid
	maxExamples   = 4000 // labelled examples used, the first ones
	// keep is the share of candidates that survive a rung.
	keep = 1. / 3
	// leastExamples is the size of the smallest rung. At this size an accuracy has an
	// error of about 3 %; with fewer examples, halving would be a matter of luck.
	leastExamples = 400
	// leastMinority is the expected number of examples of the rarer class that a rung
	// must have.
	leastMinority = 40
	// leastSurvivors is the smallest number of candidates in the next rung.
	leastSurvivors = 4
)

// Result is the outcome of Run.
type Result struct {
	// Options are the options to use, both given and chosen.
	Options map[string]string
	// Table has a row for each candidate at each rung, sorted by rung and rank.
	Table []Row
	// Note says why nothing was tuned, or is empty.
	Note string
}

// Run chooses the options that spec declares as tuned and that fixed leaves open,
// on the labelled examples. Learners also get the unlabelled examples for training.
//
// The option gamma is searched around 1/median squared distance, not over its
// declared range. Options that have no effect given the others are skipped: gamma
// with a linear kernel, c with a given lambda, lambda with a given c.
//
// The score is the accuracy or, for regression, minus the mean squared error. Both are
// weighted, which matters for rare classes; see Row. With a rare class the rungs are
// larger, so that each has enough examples of it.
//
// The stream may be autocorrelated, with nearly equal neighbours. So folds consist of
// runs of consecutive examples, dealt so that the folds have equal shares of the
// classes. A random split would reward memorising.
//
// progress, if not nil, is called on any goroutine with the share of the work that is
// done. An error comes from ctx or from a learner.
func Run(ctx context.Context, spec algos.Spec, env algos.Env, fixed map[string]string, examples []*stream.Example, progress func(share float64)) (Result, error) {
	res := Result{Options: overlay(fixed, nil)}
	if env.Task == "" {
		env.Task = spec.Tasks[0]
	}
	grid, err := candidates(spec, env, fixed, examples, maxCandidates)
	if err != nil || len(grid) == 0 {
		res.Note = "no option is left to tune"
		return res, err
	}
	d, note := split(examples, env)
	if note != "" {
		res.Note = note
		return res, nil
	}
	// Keep the candidates from logging.
	env.Log = nil
	alive := make([]*trial, len(grid))
	for i, p := range grid {
		alive[i] = &trial{point: p, order: i, all: overlay(fixed, p.options)}
	}
	judge := score
	if validates(spec, env, alive) {
		judge = validate
	}
	sizes := d.rungs(len(alive))
	w := work{report: progress}
	for n, i := len(alive), 0; i < len(sizes); n, i = survivors(n), i+1 {
		w.total += n * sizes[i]
	}
	for rung, size := range sizes {
		if err := judge(ctx, spec, env, d, size, alive, &w); err != nil {
			return res, err
		}
		slices.SortFunc(alive, (*trial).compare)
		for _, t := range alive {
			res.Table = append(res.Table, t.row(rung+1, size))
		}
		if rung < len(sizes)-1 {
			alive = alive[:survivors(len(alive))]
		}
	}
	best := alive[0]
	if math.IsInf(best.score, -1) {
		res.Note = "no candidate gave finite predictions"
		return res, nil
	}
	res.Table[len(res.Table)-len(alive)].Chosen = true
	res.Options = best.all
	return res, nil
}

// survivors returns how many of n trials go into the next rung.
func survivors(n int) int { return min(n, max(int(math.Ceil(float64(n)*keep)), leastSurvivors)) }

// work reports the progress, in trials times examples.
type work struct {
	report      func(share float64)
	mu          sync.Mutex
	done, total int
}

func (w *work) add(n int) {
	if w.report == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done += n
	w.report(float64(w.done) / float64(w.total))
}

func overlay(a, b map[string]string) map[string]string {
	out := make(map[string]string, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

// trial is a candidate with its scores at the present rung.
type trial struct {
	point
	order       int               // position in the grid, more regularised first
	all         map[string]string // including the fixed options
	score, loss float64
	merit       float64 // score minus the penalty of the prior
}

// compare orders by merit, then loss, then from more to less regularised.
func (t *trial) compare(u *trial) int {
	return cmp.Or(cmp.Compare(u.merit, t.merit), cmp.Compare(t.loss, u.loss), cmp.Compare(t.order, u.order))
}

func (t *trial) row(rung, size int) Row {
	var text []byte
	for i, k := range slices.Sorted(maps.Keys(t.options)) {
		if i > 0 {
			text = append(text, ' ')
		}
		text = fmt.Appendf(text, "%s=%s", k, t.options[k])
	}
	return Row{Options: string(text), Rung: rung, Examples: size, Score: t.score, Loss: t.loss}
}

// score sets the scores of the trials on the first size labelled examples.
func score(ctx context.Context, spec algos.Spec, env algos.Env, d *data, size int, trials []*trial, w *work) error {
	folds := d.part(size)
	sums := make([]sum, len(trials)*len(folds))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	par.Each(len(sums), func(i int) {
		t := trials[i/len(folds)]
		var err error
		if sums[i], err = run(ctx, spec, env, t.all, folds[i%len(folds)]); err != nil {
			cancel(fmt.Errorf("%s: %w", t.row(0, 0).Options, err)) // the first error wins
		}
		w.add(size / len(folds))
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for i, t := range trials {
		var all sum
		for _, s := range sums[i*len(folds) : (i+1)*len(folds)] {
			all.n += s.n
			all.right += s.right
			all.loss += s.loss
		}
		t.set(all, env.Task)
	}
	weigh(trials, size, env.Task)
	return nil
}

// set stores the score.
func (t *trial) set(s sum, task algos.Task) {
	t.loss = s.loss / s.n
	t.score = -t.loss
	if task == algos.Classify {
		t.score = s.right / s.n
	}
	if math.IsNaN(t.loss) || math.IsInf(t.loss, 0) { // the learner diverged
		t.score, t.loss = math.Inf(-1), math.Inf(1)
	}
	t.merit = t.score
}

// prior is the penalty at the end of an axis compared with its middle, in standard
// errors of a score.
const prior = 2

// weigh sets the merits: scores minus a quadratic prior on the logarithms of the
// options, in proportion to the standard error of the scores. The first examples are
// not the whole stream, so an extreme choice must be better by more than chance.
func weigh(trials []*trial, n int, task algos.Task) {
	best := math.Inf(-1)
	for _, t := range trials {
		best = max(best, t.score)
	}
	if math.IsInf(best, -1) {
		return
	}
	unit := math.Sqrt(best * (1 - best) / float64(n))
	if task == algos.Regress { // the standard error of a mean of squared normal errors
		unit = -best * math.Sqrt(2/float64(n))
	}
	for _, t := range trials {
		t.merit = t.score - float64(prior*unit*t.far)
	}
}

// scoreClasses adds up the weights of correctly predicted examples. The loss is the
// sum of the one-vs-rest hinge losses.
func scoreClasses(m algos.Scorer, xs []stream.Vec, test []*stream.Example) sum {
	k := m.Classes()
	scores := make([]float64, k*len(xs))
	m.Scores(scores, xs)
	var s sum
	for i, x := range test {
		f := scores[i*k : (i+1)*k]
		w := x.Importance()
		s.n += w
		if algos.Largest(f) == int(x.Y) {
			s.right += w
		}
		for c, v := range f {
			if c != int(x.Y) {
				v = -v
			}
			s.loss += float64(w * max(0, 1-v)) // NaN if v is
		}
	}
	return s
}

// sum has sums of weights.
type sum struct{ n, right, loss float64 }

// run trains on the training part of a fold, as the training loop would, and scores
// on the test part.
func run(ctx context.Context, spec algos.Spec, env algos.Env, options map[string]string, f fold) (sum, error) {
	var s sum
	if err := ctx.Err(); err != nil {
		return s, err
	}
	l, err := spec.New(env, options)
	if err != nil {
		return s, err
	}
	// The learner owns the examples; the features are only read.
	train := make([]*stream.Example, len(f.train))
	for i, x := range f.train {
		c := *x
		train[i] = &c
	}
	if q, ok := l.(algos.Sequential); ok {
		_, _, err = q.Follow(ctx, make([]float64, max(env.Classes, 1)*len(train)), train)
	} else {
		_, err = algos.Feed(ctx, l, train...)
	}
	if err != nil {
		return s, err
	}
	if _, err := l.Finish(ctx); err != nil {
		return s, err
	}
	xs := make([]stream.Vec, len(f.test))
	for i, x := range f.test {
		xs[i] = x.X
	}
	if env.Classes > 2 {
		return scoreClasses(l.Model().(algos.Scorer), xs, f.test), nil
	}
	decisions := make([]float64, len(xs))
	l.Model().Decisions(decisions, xs)
	return sumOf(decisions, f.test, env.Task), nil
}

// sumOf sums up scores and losses of decisions.
func sumOf(decisions []float64, test []*stream.Example, task algos.Task) sum {
	var s sum
	for i, x := range test {
		f := decisions[i]
		w := x.Importance()
		s.n += w
		if task == algos.Regress {
			s.loss += float64(w * float64((x.Y-f)*(x.Y-f)))
			continue
		}
		if (f >= 0) == (x.Y > 0) {
			s.right += w
		}
		s.loss += float64(w * max(0, 1-float64(x.Y*f))) // NaN if f is
	}
	return s
}
