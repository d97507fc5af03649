package adaptive

import (
	"context"
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/stream"
)

// lately runs a panel over xs with labels that come delay examples later, and
// returns it with the share of right decisions.
func lately(t *testing.T, xs []*stream.Example, delay int) (*Learner, float64) {
	t.Helper()
	a, err := Spec.New(algos.Env{Seed: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := a.(*Learner)
	var f [1]float64
	right := 0
	for i, x := range xs {
		if (l.PredictPending(x) >= 0) == (x.Y > 0) {
			right++
		}
		if i < delay {
			continue
		}
		if _, _, err := l.Follow(context.Background(), f[:], xs[i-delay:i-delay+1]); err != nil {
			t.Fatal(err)
		}
		if len(l.pending) != delay {
			t.Fatalf("%d predictions are kept for %d examples that wait", len(l.pending), delay)
		}
	}
	return l, float64(right) / float64(len(xs))
}

// runs are labels that come in runs of eight, of which the features say nothing: the best
// expert repeats the label before, as long as it knows that.
func runs(n int) []*stream.Example {
	xs := algostest.Moons(n, algos.Classify, 3)
	for i, x := range xs {
		x.Y = float64(i/8%2)*2 - 1
		x.X.Val = []float32{float32(math.Mod(float64(i)*0.37, 1)), float32(math.Mod(float64(i)*0.73, 1))}
	}
	return xs
}

// With labels that come 50 examples later nobody knows the label before, and no expert
// must be weighted as if it did.
func TestPendingPredictionsCount(t *testing.T) {
	xs := runs(1500)
	at, now := lately(t, xs, 0)
	late, then := lately(t, xs, 50)
	// They judge the latest version, each for itself; also after a restart.
	b, err := Spec.New(algos.Env{Seed: 1}, nil)
	if err == nil {
		err = b.UnmarshalBinary(algostest.Bytes(t, late))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*Learner{late, b.(*Learner)} {
		if n := l.published.count; n < 50 || n != float64(int(n)) {
			t.Errorf("the latest version is judged by %v examples", n)
		}
		for _, p := range l.pending {
			if p.aged.scores == nil || p.aged.stands != 1 {
				t.Errorf("the latest version predicted for %v examples", p.aged.stands)
			}
		}
	}
	weight := func(l *Learner) float64 {
		w := l.stack.w[l.published.names["last"]]
		return w * l.calibrators[0][l.published.names["last"]].logOdds(1)
	}
	if weight(at) < 1 || weight(late) > weight(at)/3 || now < 0.8 {
		t.Errorf("the last label counts %.3f at once (accuracy %.3f), %.3f with labels 50 examples later (%.3f)", weight(at), now, weight(late), then)
	}
}

// A version that is used for 250 examples must not rely on the last label either.
func TestPublishedIsForLater(t *testing.T) {
	xs := runs(4000)
	l, err := Spec.New(algos.Env{Seed: 1, PublishEvery: 250}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var own, published, n float64
	var version algos.Model
	dst := make([]float64, 250)
	for at := 0; at+250 <= len(xs); at += 250 {
		if _, _, err := l.(algos.Sequential).Follow(t.Context(), dst, xs[at:at+250]); err != nil {
			t.Fatal(err)
		}
		for i, x := range xs[at : at+250] {
			if at < 2000 {
				break
			}
			y := int(x.Y+1) / 2
			own += logLoss(dst[i:i+1], y)
			published += logLoss([]float64{version.Decision(x.X)}, y)
			n++
		}
		if version, err = Spec.DecodeModel(algostest.Bytes(t, l.(algos.Publisher).Published())); err != nil {
			t.Fatal(err)
		}
	}
	if own /= n; own > 0.62 {
		t.Errorf("the learner's own log loss is %.3f", own)
	}
	if published /= n; published > math.Ln2+0.02 {
		t.Errorf("the log loss of what is published is %.3f", published)
	}
}

// A growing SVM that starts after a cut is not judged by the predictions of the one before.
func TestCutsWithLateLabels(t *testing.T) {
	xs := algostest.Moons(3000, algos.Classify, 3)
	for i, x := range xs {
		if i >= 1500 {
			x.Y = -x.Y
		}
	}
	at, _ := lately(t, xs, 0)
	late, _ := lately(t, xs, 400)
	n, _ := at.ChangePoints()
	m, cuts := late.ChangePoints()
	if n == 0 || m == 0 || m > n+1 {
		t.Errorf("%d cuts at once, %d with labels 400 examples later: %v", n, m, cuts)
	}
}

// TestLateRules: if a label is late, half of a rule's loss is of what it gave when the example came,
// half of what it would give now. A regression's proposals are judged by the former alone. A restart
// changes nothing.
func TestLateRules(t *testing.T) {
	const delay = 300
	for name, env := range map[string]algos.Env{"two": {Classes: 2}, "three": {Classes: 3}, "numbers": {Task: algos.Regress}} {
		xs := jumps(1500)
		for i, x := range xs {
			switch {
			case env.Classes == 3:
				x.Y = float64(i * i % 7 % 3)
			case env.Task == algos.Regress:
				x.Y = float64(x.X.Val[min(i/400, 1)])
			case !x.Labelled:
				x.Y = 1
			}
			x.Labelled = true
		}
		env.Seed = 1
		a, err := Spec.New(env, nil)
		if err != nil {
			t.Fatal(err)
		}
		dst := make([]float64, 3)
		step := func(from int) {
			if _, _, err := a.(algos.Sequential).Follow(t.Context(), dst, xs[from:from+1]); err != nil {
				t.Fatal(err)
			}
		}
		for i, x := range xs {
			if b, ok := a.(algos.PendingScorer); ok {
				b.ScorePending(dst, x)
			} else {
				a.(algos.PendingPredictor).PredictPending(x)
			}
			if i >= delay {
				step(i - delay)
			}
		}
		if err := a.UnmarshalBinary(algostest.Bytes(t, a)); err != nil {
			t.Fatal(err)
		}
		x := xs[len(xs)-delay]
		if m, ok := a.(*Learner); ok && m.numbers != nil {
			n, p := m.numbers, m.pending[0]
			loss := func(out outputs) float64 { return errorOf(false, dot(n.hedge.weights(), out), x.Y) }
			n.hedge.n = 0 // its mean loss becomes that of the next example
			want, now := loss(p.aged.out), loss(n.outputs(n.frozen, p.aged.scores))
			if step(len(xs) - delay); math.Abs(n.hedge.loss-want) > 1e-12 || math.Abs(now-want) < 1e-9 {
				t.Errorf("%s: loss %g, want %g, by now %g", name, n.hedge.loss, want, now)
			}
			continue
		}
		var p *published
		var heads []*Learner
		switch m := a.(type) {
		case *Learner:
			p, heads = m.published, []*Learner{m}
		case *classes:
			p, heads = m.mixer.published, m.heads
		}
		y, then, scores := positive(x), make([]float64, len(heads)), make([][]score, len(heads))
		if len(heads) > 1 {
			y = int(x.Y)
		}
		for k, h := range heads {
			scores[k], then[k] = h.pending[0].aged.scores, h.pending[0].aged.out[ruleStack]
			if share := h.pending[0].aged.out[ruleShare]; len(heads) > 1 && share == share {
				t.Errorf("%s: class %d has %g of the rule for two", name, k, share)
			}
		}
		before, late, now := p.sums[ruleStack], logLoss(then, y), logLoss(p.outputs(scores).at(ruleStack, len(heads)), y)
		step(len(xs) - delay)
		if got, want := p.sums[ruleStack]-before, (late+now)/2; math.Abs(got-want) > 1e-12 || math.Abs(late-now) < 1e-6 {
			t.Errorf("%s: loss %g, want %g, half each of %g and %g", name, got, want, late, now)
		}
	}
}

// A label may come before that of an older example; each meets the prediction made for its example.
func TestLabelsOutOfOrder(t *testing.T) {
	l := &Learner{}
	for _, seq := range []uint64{1, 2, 4, 5} {
		l.pending = append(l.pending, pendingPrediction{seq, prediction{f: float64(seq)}})
	}
	for i, seq := range []uint64{4, 3, 1, 5, 4, 2} {
		p := l.takePending(&stream.Example{Seq: seq})
		if there := seq != 3 && i != 4; (p != nil) != there || there && p.f != float64(seq) {
			t.Errorf("%d: example %d met %v", i, seq, p)
		}
	}
	if len(l.pending) != 0 {
		t.Errorf("%v are left", l.pending)
	}
}
