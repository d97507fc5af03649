package adaptive

import (
	"context"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
)

// The experts, in the order of their scores and weights.
const (
	growing = iota // M: all examples since the last cut
	k64            // challengers, on the newest examples
	k256
	k1024
	k2048
	l1 // passive-aggressive
	l01
	a3 // AdaGrad
	a1
	r1 // passive-aggressive in random features
	r01
	numExperts
)

var names = [numExperts]string{"m", "k64", "k256", "k1024", "k2048", "l1", "l01", "a3", "a1", "r1", "r01"}

// sizes are the numbers of examples at which the experts change. Tests have
// smaller ones.
type sizes struct {
	first   int                  // of the first machine
	ripe    int                  // that a machine worth trusting has learned from
	large   int                  // from which on the growing machine is scs
	whole   int                  // on which its options are chosen as those of a learner that stands alone
	settled int                  // from which on the longest challenger is not worth its time
	held    int                  // most that the growing machine of a regression holds, which needs all of them
	windows [k2048 - k64 + 1]int // of the challengers
	scs     map[string]string    // options of scs, whose defaults are for large samples
}

var standard = sizes{first: 64, ripe: 1024, large: 2048, whole: 4000, settled: 16384, held: 2048, windows: [...]int{64, 256, 1024, 2048}}

// Learner is the panel; see the package documentation. Not safe for concurrent
// use.
type Learner struct {
	*panel
	vote     *vote
	trust    trust
	heaviest float64    // weight of an example; 0: all were 1
	waiting  []foretold // in order of the examples

	said [tick]*prediction // scratch
}

var (
	_ algos.Sequential    = (*Learner)(nil)
	_ algos.DriftReporter = (*Learner)(nil)
	_ algos.Foreteller    = (*Learner)(nil)
)

func newLearner(env algos.Env, o options) (algos.Learner, error) { return newSized(env, o, &standard) }

func newSized(env algos.Env, o options, s *sizes) (algos.Learner, error) {
	if env.Task == algos.Regress {
		return newRegressor(env, o, s)
	}
	l := &Learner{vote: newVote(priors(numExperts))}
	var err error
	l.panel, err = makePanel(env, o, s, 0, l, func(x onePass) expert { return &x })
	return l, err
}

// Follow implements algos.Sequential.
func (l *Learner) Follow(ctx context.Context, dst []float64, xs []*stream.Example) (learned, steps int, err error) {
	if learned, steps, err = l.panel.Follow(ctx, dst, xs); err != nil {
		return 0, 0, err
	}
	for _, x := range xs {
		if !x.Labelled {
			l.recall(x)
		}
	}
	return learned, steps, nil
}

func (l *Learner) look(xs []*stream.Example) {
	fresh := false
	for i, x := range xs {
		l.said[i] = l.recall(x)
		fresh = fresh || l.said[i] == nil
	}
	if fresh {
		l.scoreMachines(xs)
	}
}

// predict returns what the experts say of example i of those whose scores by
// machines are known.
func (l *Learner) predict(i int, z, phi stream.Vec) (p prediction) {
	l.say(p.scores[:], i, z, phi, 0)
	p.f = logOdds(l.vote.mix(p.scores[:]))
	if m := l.machines[growing]; m != nil {
		if l.trust.given(m.rows >= l.sizes.ripe, l.weighted()) {
			p.f = l.vote.experts[growing].odds(p.scores[growing])
		}
		cuts, _ := l.cutting.ChangePoints()
		p.machine = 1 + cuts
	}
	return p
}

// one predicts an example, whose scores by machines are known, unless it was
// foretold, and learns from it.
func (l *Learner) one(i int, x *stream.Example) (float64, error) {
	share := l.weigh(x)
	z, phi := l.see(x)
	var p prediction
	var now [numExperts]float64
	if l.said[i] != nil {
		p = *l.said[i]
		sayLinear(now[:], l.linear[:], z, phi, 0)
	} else {
		p = l.predict(i, z, phi)
		now = p.scores
	}
	if p.machine > 0 {
		l.judge(p.scores[:], x.Y, share)
		// The errors of a machine that has been cut since say nothing of this one.
		if cuts, _ := l.cutting.ChangePoints(); p.machine == 1+cuts {
			l.compare(p.scores[:], x.Y, share)
		}
	}
	l.vote.learn(p.scores[:], x.Y, share)
	return p.f, l.take(x, z, phi, now[:])
}

// Report describes the present state.
func (l *Learner) Report() algos.Report { return l.report(names[:], l.vote.weights()) }
