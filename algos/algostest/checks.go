package algostest

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
)

// checkOptions: the documentation of the options and the parser agree.
func checkOptions(t *testing.T, spec algos.Spec) {
	if spec.Name == "" || spec.Summary == "" || spec.When == "" || spec.Paper == "" || spec.Kind == "" {
		t.Error("name, summary, when, paper or kind is missing")
	}
	if err := spec.Check(nil); err != nil {
		t.Fatalf("the defaults are refused: %v", err)
	}
	for name := range spec.Presets {
		if _, err := spec.WithPreset(name, nil); err != nil {
			t.Errorf("preset %s is refused: %v", name, err)
		}
	}
	refuse := func(name, value, bound string) {
		t.Helper()
		err := spec.Check(map[string]string{name: value})
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), value) || !strings.Contains(err.Error(), bound) {
			t.Errorf("%s = %s: want an error with name, value and %q, got %v", name, value, bound, err)
		}
	}
	seen := map[string]bool{}
	for _, o := range spec.Options {
		if seen[o.Name] || o.Doc == "" {
			t.Errorf("option %q is there twice or says nothing", o.Name)
		}
		seen[o.Name] = true
		if err := spec.Check(map[string]string{o.Name: o.Default}); err != nil {
			t.Errorf("the default of %s: %v", o.Name, err)
		}
		for _, c := range o.Candidates(4) {
			if err := spec.Check(map[string]string{o.Name: c}); err != nil {
				t.Errorf("the candidate %s of %s: %v", c, o.Name, err)
			}
		}
		if o.Tune != "" && o.Candidates(4) == nil {
			t.Errorf("option %s: the tuner cannot read %q", o.Name, o.Tune)
		}
		if o.Auto != "" {
			if err := spec.Check(map[string]string{o.Name: "auto"}); err != nil {
				t.Errorf("option %s: %v", o.Name, err)
			}
		}
		switch o.Type {
		case "float64", "int", "uint64":
			refuse(o.Name, "many", "not a")
			lo, hi, ok := strings.Cut(strings.Trim(o.Range, "()[]"), ",")
			if !ok {
				t.Errorf("option %s has no range", o.Name)
				continue
			}
			if lo != "-inf" {
				refuse(o.Name, "-1"+strings.TrimLeft(lo, "-+"), map[bool]string{true: "not a", false: o.Range}[o.Type == "uint64"])
			}
			if hi != "inf" && o.Type == "float64" {
				refuse(o.Name, "1e300", o.Range)
			} else if hi != "inf" {
				refuse(o.Name, "9000000000000000000", o.Range)
			}
		case "enum":
			refuse(o.Name, "nonesuch", o.Enum)
		case "bool":
			refuse(o.Name, "perhaps", "true")
		}
	}
	if len(spec.Options) > 0 {
		typo := spec.Options[0].Name + "x"
		if err := spec.Check(map[string]string{typo: "1"}); !seen[typo] && (err == nil || !strings.Contains(err.Error(), typo)) {
			t.Errorf("an unknown option: %v", err)
		}
	}
}

// need: Need().Fresh is a true lower bound, and a step is due when it says so.
func (s *suite) need(t *testing.T) {
	l := s.learner(t)
	xs := s.moons(s.examples, s.seed)
	steps := 0
	for len(xs) > 0 {
		n := l.Need()
		if n.Fresh < 1 || n.Steps < 1 {
			t.Fatalf("no step is due, but Need says %+v", n)
		}
		before, model := l.Report().Step, Bytes(t, l.Model())
		for i := range min(n.Fresh, len(xs)) {
			if i > 0 && l.Need().Fresh <= 0 {
				t.Fatalf("a step is due after %d examples; it was not to be before %d", i, n.Fresh)
			}
			if _, err := l.Add(xs[i]); err != nil {
				t.Fatal(err)
			}
		}
		if l.Report().Step != before || !bytes.Equal(model, Bytes(t, l.Model())) {
			t.Fatal("the model changed without a Step")
		}
		xs = xs[min(n.Fresh, len(xs)):]
		for n := l.Need(); n.Fresh <= 0; n = l.Need() {
			if n.Steps < 1 {
				t.Fatalf("a step is due, but Need says %+v", n)
			}
			Step(t, l)
			steps++
		}
	}
	if steps == 0 {
		t.Fatalf("no step in %d examples: use options under which there is one", s.examples)
	}
}

// addLeavesModel: Add changes no decision.
func (s *suite) addLeavesModel(t *testing.T) {
	l := s.learner(t)
	points := probes(s.seed)
	before, after := make([]float64, len(points)), make([]float64, len(points))
	for i, x := range s.odd(s.examples, s.seed) {
		check := i%max(s.examples/40, 1) == 0
		if check {
			l.Model().Decisions(before, points)
		}
		if _, err := l.Add(x); err != nil {
			t.Fatal(err)
		}
		if check {
			l.Model().Decisions(after, points)
			if !slices.EqualFunc(before, after, sameBits) {
				t.Fatalf("adding example %d changed the model", x.Seq)
			}
		}
		Step(t, l)
	}
}

// pending: PredictPending returns the model's decision and does not change the model.
// If it is called just before the example is learned from, it does not change the
// state. Its predictions are part of the state until their examples have come.
func (s *suite) pending(t *testing.T) {
	plain, l := s.learner(t), s.learner(t)
	pending := func(l algos.Learner, x *stream.Example) []float64 {
		if s.classes > 2 {
			f := make([]float64, s.classes)
			l.(algos.PendingScorer).ScorePending(f, x)
			return f
		}
		return []float64{l.(algos.PendingPredictor).PredictPending(x)}
	}
	_, one := l.(algos.PendingPredictor)
	if _, many := l.(algos.PendingScorer); !one && !many {
		t.Skip("it is none")
	}
	late := s.examples / 10
	xs := s.moons(s.examples+late, s.seed)
	for _, x := range xs[:s.examples] {
		model := Bytes(t, l.Model())
		want := s.say(t, l.Model(), x.X)
		if got := pending(l, x); !slices.EqualFunc(got, want, sameBits) {
			t.Fatalf("example %d: %v is predicted, by the model %v", x.Seq, got, want)
		}
		if !bytes.Equal(model, Bytes(t, l.Model())) {
			t.Fatalf("the prediction for example %d changed the model", x.Seq)
		}
		c := *x
		Feed(t, l, x)
		Feed(t, plain, &c)
	}
	if !bytes.Equal(Bytes(t, l), Bytes(t, plain)) {
		t.Fatal("what is predicted for it just before it is learned from changes the state")
	}
	rest := xs[s.examples:]
	for _, x := range rest {
		pending(l, x)
	}
	again := s.restore(t, Bytes(t, l))
	for _, l := range []algos.Learner{l, again} {
		for i, x := range rest {
			c := *x
			if i%3 == 0 || i >= len(rest)/2 {
				c.Labelled, c.Y = false, 0 // its label has not come
			}
			Feed(t, l, &c)
		}
	}
	if !bytes.Equal(Bytes(t, l), Bytes(t, again)) {
		t.Error("a restored learner has forgotten its pending predictions")
	}
	for _, x := range s.moons(s.examples, s.seed)[:late] {
		before := Bytes(t, l)
		c := *x
		c.Seq += uint64(len(xs))
		c.Labelled, c.Y = false, 0
		pending(l, &c)
		Feed(t, l, &c)
		Feed(t, again, &c)
		if len(Bytes(t, l)) > len(before)+64 {
			t.Fatal("what was predicted for an example is kept when it has come without a label")
		}
	}
	if !bytes.Equal(Bytes(t, l), Bytes(t, again)) {
		t.Error("what was predicted for examples without a label changes the state")
	}
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// input: a learner owns the examples it is given, but does not change them.
func (s *suite) input(t *testing.T) {
	l := s.learner(t)
	xs := s.odd(s.examples, s.seed)
	copies := clone(xs)
	Feed(t, l, xs...)
	points := probes(s.seed)
	l.Model().Decisions(make([]float64, len(points)), points)
	if _, err := l.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range xs {
		if !equal(xs[i], copies[i]) {
			t.Fatalf("example %d was changed: %+v, was %+v", xs[i].Seq, xs[i], copies[i])
		}
	}
	for i, x := range probes(s.seed) {
		if !slices.Equal(x.Idx, points[i].Idx) || !slices.Equal(x.Val, points[i].Val) {
			t.Fatalf("prediction changed its argument %d", i)
		}
	}
}

// oddExamples: the learner accepts examples of every form.
func (s *suite) oddExamples(t *testing.T) {
	l := s.learner(t)
	Feed(t, l, s.odd(s.examples, s.seed)...)
	if _, err := l.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.finite(t, l.Model())
	l = s.learner(t)
	for i := range s.examples {
		Feed(t, l, &stream.Example{Seq: uint64(i + 1), X: stream.Vec{Val: []float32{1, 2}}})
	}
	if _, err := l.Finish(t.Context()); err != nil {
		t.Fatalf("a stream without labels: %v", err)
	}
	l = s.learner(t)
	if _, err := l.Finish(t.Context()); err != nil {
		t.Fatalf("an empty stream: %v", err)
	}
	s.finite(t, l.Model())
}

// oneClass: a stream may contain only one class, or only one point.
func (s *suite) oneClass(t *testing.T) {
	labels := []float64{1, -1}
	if s.classes > 2 {
		labels = []float64{0, float64(s.classes - 1)}
	}
	for _, y := range labels {
		for _, fixed := range []bool{false, true} {
			l := s.learner(t)
			for _, x := range s.moons(s.examples, s.seed) {
				if x.Labelled {
					x.Y = y
				}
				if fixed {
					x.X.Val = []float32{1, .5}
				}
				Feed(t, l, x)
			}
			if _, err := l.Finish(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.finite(t, l.Model())
			if f := l.Model().Decision(stream.Vec{Val: []float32{1, .5}}); fixed && !s.right(f, y) {
				t.Errorf("all examples are the same, of class %+g, but f = %g", y, f)
			}
		}
	}
}

func (s *suite) finite(t *testing.T, m algos.Model) {
	t.Helper()
	for i, x := range probes(s.seed) {
		if f := m.Decision(x); math.IsNaN(f) || math.IsInf(f, 0) {
			t.Fatalf("f = %g at probe %d", f, i)
		}
	}
}

// model: a stored model decides like the live one. A decision does not depend
// on the rest of its batch or on concurrency.
func (s *suite) model(t *testing.T) {
	l := s.learner(t)
	points := append(probes(s.seed), farProbes()...)
	for i, x := range points {
		if f := l.Model().Decision(x); f != 0 {
			t.Fatalf("f = %g at probe %d before any step", f, i)
		}
	}
	r := rand.New(rand.NewPCG(s.seed, 3))
	xs := s.odd(s.examples, s.seed)
	Feed(t, l, xs[:s.examples/2]...)
	for part := range 3 {
		live := l.Model()
		if k := live.Info().Kind; k != s.spec.Kind {
			t.Fatalf("the model is of kind %s, the learner of kind %s", k, s.spec.Kind)
		}
		data := Bytes(t, live)
		decoded, err := s.spec.DecodeModel(data)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, Bytes(t, decoded)) {
			t.Fatal("a decoded model is encoded otherwise")
		}
		if a, b := live.Info(), decoded.Info(); a != b {
			t.Fatalf("live model %+v, decoded %+v", a, b)
		}
		want, per := make([]float64, 0, len(points)), s.per()
		for i, x := range points {
			one := s.say(t, live, x)
			want = append(want, one...)
			if got := s.say(t, decoded, x); !slices.EqualFunc(got, one, sameBits) {
				t.Fatalf("part %d, probe %d: live %g, decoded %g", part, i, one, got)
			}
		}
		var wait sync.WaitGroup
		for _, m := range []algos.Model{live, decoded, live, decoded} {
			cuts := []int{0, len(points)}
			for range r.IntN(12) {
				cuts = append(cuts, r.IntN(len(points)+1))
			}
			slices.Sort(cuts)
			wait.Go(func() {
				got := make([]float64, 0, len(want))
				for i := 1; i < len(cuts); i++ {
					got = append(got, s.say(t, m, points[cuts[i-1]:cuts[i]]...)...)
				}
				for i := range got {
					if !sameBits(got[i], want[i]) {
						t.Errorf("part %d, probe %d: %g alone, %g in a batch cut at %v", part, i/per, want[i], got[i], cuts)
						return
					}
				}
			})
		}
		wait.Wait()
		if part == 0 {
			Feed(t, l, xs[s.examples/2:]...)
		} else if _, err := l.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// finish: Finish may come twice, and learning goes on afterwards.
func (s *suite) finish(t *testing.T) {
	for _, n := range []int{1, s.examples - 1} {
		l := s.learner(t)
		xs := s.moons(2*s.examples, s.seed)
		for _, x := range xs {
			x.Labelled = true
			if x.Y == 0 && s.classes <= 2 {
				x.Y = 1
			}
		}
		Feed(t, l, xs[:n]...)
		for range 2 {
			if _, err := l.Finish(t.Context()); err != nil {
				t.Fatal(err)
			}
			if need := l.Need(); need.Fresh < 1 {
				t.Fatalf("after Finish a step is due: %+v", need)
			}
		}
		// A preset may leave a remainder that is too small for a step.
		if f := l.Model().Decision(xs[0].X); n == 1 && l.Report().Step > 0 && !s.right(f, xs[0].Y) {
			t.Errorf("f = %g after one example with label %g and Finish", f, xs[0].Y)
		}
		before := l.Report().Step
		Feed(t, l, xs[n:]...)
		if after := l.Report().Step; after <= before {
			t.Errorf("no step in %d examples after Finish at %d", len(xs)-n, n)
		}
		if _, err := l.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.finite(t, l.Model())
	}
}

// report: reports do not change the state, count steps, and always have the same gauges.
func (s *suite) report(t *testing.T) {
	l := s.learner(t)
	last, names := uint64(0), ""
	for i, x := range s.moons(s.examples, s.seed) {
		Feed(t, l, x)
		if i%20 > 0 {
			continue
		}
		before := Bytes(t, l)
		r := l.Report()
		if !bytes.Equal(before, Bytes(t, l)) {
			t.Fatal("Report changed the state")
		}
		if r.Step < last {
			t.Fatalf("step %d after step %d", r.Step, last)
		}
		last = r.Step
		var got []string
		for _, g := range r.Gauges {
			got = append(got, g.Name)
		}
		// Before the first step there may be nothing to measure.
		if names != "" && strings.Join(got, " ") != names {
			t.Fatalf("gauges %v, before %s", got, names)
		}
		names = strings.Join(got, " ")
	}
	if last == 0 {
		t.Fatal("no step was reported")
	}
	if n := l.Report().KernelEvals; s.spec.Kind == algos.Kernel && n <= 0 {
		t.Errorf("%d kernel values were computed", n)
	}
}

// learns: the learner reaches the required accuracy.
func (s *suite) learns(t *testing.T) {
	l := s.learner(t)
	Feed(t, l, s.moons(3*s.examples, s.seed)...)
	if _, err := l.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	var n, right, residual, total float64
	for _, x := range s.moons(2000, s.seed+1) {
		if !x.Labelled {
			continue
		}
		f := l.Model().Decision(x.X)
		n++
		if s.right(f, x.Y) {
			right++
		}
		residual += (x.Y - f) * (x.Y - f)
		total += x.Y * x.Y
	}
	score := right / n
	if s.task == algos.Regress {
		score = 1 - residual/total
	}
	if score < s.accuracy {
		t.Errorf("accuracy %.3f, want %.3f", score, s.accuracy)
	}
}
