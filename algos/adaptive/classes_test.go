package adaptive

import (
	"bytes"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/stream"
)

// versions follows xs and returns the scores of published versions for the examples from the
// given one on, each by the version published after the last multiple of 250.
func versions(t *testing.T, env algos.Env, xs []*stream.Example, from int) (l algos.Learner, scores [][]float64) {
	t.Helper()
	env.PublishEvery = 250
	l, err := Spec.New(env, nil)
	if err != nil {
		t.Fatal(err)
	}
	var version algos.Model
	lanes := max(1, env.Classes)
	for at := 0; at+250 <= len(xs); at += 250 {
		if at >= from {
			for _, x := range xs[at : at+250] {
				f := make([]float64, lanes)
				if s, ok := version.(algos.Scorer); ok {
					s.Scores(f, []stream.Vec{x.X})
				} else {
					f[0] = version.Decision(x.X)
				}
				scores = append(scores, f)
			}
		}
		if _, _, err := l.(algos.Sequential).Follow(t.Context(), make([]float64, 250*lanes), xs[at:at+250]); err != nil {
			t.Fatal(err)
		}
		if version, err = Spec.DecodeModel(algostest.Bytes(t, l.(algos.Publisher).Published())); err != nil {
			t.Fatal(err)
		}
	}
	return l, scores
}

// The probabilities of several classes that overlap are nearly as good as by Bayes' rule.
func TestClassesThatOverlap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	centers := [][2]float64{{0, 0}, {1.5, 0}, {0, 1.5}, {1.5, 1.5}}
	var xs []*stream.Example
	var bayes []float64
	for i := range 3000 {
		y := r.IntN(len(centers))
		a, b := centers[y][0]+r.NormFloat64(), centers[y][1]+r.NormFloat64()
		xs = append(xs, &stream.Example{Seq: uint64(i), X: stream.Vec{Val: []float32{float32(a), float32(b)}}, Y: float64(y), Labelled: true})
		f := make([]float64, len(centers))
		for k, c := range centers {
			f[k] = -((a-c[0])*(a-c[0]) + (b-c[1])*(b-c[1])) / 2
		}
		bayes = append(bayes, logLoss(f, y))
	}
	_, scores := versions(t, algos.Env{Seed: 1, Classes: len(centers)}, xs, 1500)
	var got, best float64
	for i, f := range scores {
		got += logLoss(f, int(xs[1500+i].Y)) / float64(len(scores))
		best += bayes[1500+i] / float64(len(scores))
	}
	if t.Logf("log loss %.4f, %.4f by Bayes' rule", got, best); got > best+0.02 {
		t.Errorf("log loss %.4f, %.4f by Bayes' rule", got, best)
	}
}

// Weights of a rare class move decisions, but not probabilities.
func TestWeightsOfARareClass(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 3))
	var xs []*stream.Example
	for i := range 4000 {
		y, m := -1.0, 0.0
		if r.Float64() < 0.03 {
			y, m = 1, 1.5
		}
		xs = append(xs, &stream.Example{Seq: uint64(i), X: stream.Vec{Val: []float32{float32(m + r.NormFloat64()), float32(r.NormFloat64())}}, Y: y, Labelled: true})
	}
	loss := func(weight float64) (loss, positive float64) {
		for _, x := range xs {
			if x.Weight = 1; x.Y > 0 {
				x.Weight = float32(weight)
			}
		}
		l, scores := versions(t, algos.Env{Seed: 1}, xs, 2000)
		shift, ok := l.(algos.Publisher).Calibrated()
		if want := math.Log(weight); !ok || math.Abs(shift-want) > 1e-9 {
			t.Errorf("weight %g: decisions are shifted by %g, want %g", weight, shift, want)
		}
		for i, f := range scores {
			if f[0] > 0 {
				positive++
			}
			f[0] -= shift
			loss += logLoss(f, int(xs[2000+i].Y+1)/2) / float64(len(scores))
		}
		return loss, positive
	}
	plain, few := loss(1)
	weighted, many := loss(20)
	if t.Logf("log loss %.4f, weighted %.4f; %g and %g positive decisions", plain, weighted, few, many); weighted > 1.03*plain || many < 5*few+100 {
		t.Errorf("log loss %.4f, weighted %.4f; %g and %g positive decisions", plain, weighted, few, many)
	}
}

// TestClassesWithHeavyTails: what the classes compute together is what each would compute, also of
// words.
func TestClassesWithHeavyTails(t *testing.T) {
	for _, words := range []int{0, 300} {
		sharedAs(t, words)
	}
}

func sharedAs(t *testing.T, words int) {
	r := rand.New(rand.NewPCG(8, 3))
	var xs []*stream.Example
	for i := range 700 {
		y := r.IntN(3)
		a, b := math.Exp(float64(y)+2*r.NormFloat64()), float64(y%2)+r.NormFloat64()
		x := stream.Vec{Val: []float32{float32(a), float32(b), float32(r.IntN(8) / 7)}}
		if words > 0 {
			x.Idx = []int32{0, 1, int32(600 + r.IntN(words))}
		}
		xs = append(xs, &stream.Example{Seq: uint64(i + 1), X: x, Y: float64(y), Labelled: true})
	}
	env := algos.Env{Seed: 1, Classes: 3, Scaled: slices.Repeat([]bool{true}, 3+3*words)}
	env.Scaled[0], env.Scaled[1] = false, false
	var decisions [2][]float64
	var states [2][]byte
	for k, block := range []int{50, 256} {
		l, err := Spec.New(env, nil)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(xs); at += block {
			part := xs[at:min(at+block, len(xs))]
			out := make([]float64, 3*len(part))
			if _, _, err := l.(algos.Sequential).Follow(t.Context(), out, part); err != nil {
				t.Fatal(err)
			}
			decisions[k] = append(decisions[k], out...)
			states[k] = algostest.Bytes(t, l)
			if b := l.(*classes).common.batch; at > 0 && (len(b) == 0 || b[0].row.Idx == nil) {
				t.Error("computed together, the last feature is scaled")
			}
			if k > 0 {
				if at+block >= len(xs) {
					togetherAs(t, l, xs[:100], 3)
				}
				continue
			}
			if l, err = Spec.New(env, nil); err == nil { // knows nothing common yet
				err = l.UnmarshalBinary(states[k])
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if !slices.Equal(decisions[0], decisions[1]) || !bytes.Equal(states[0], states[1]) {
		t.Error("restored in between, the decisions or the state are different")
	}
	if !bytes.Contains(states[0], []byte("asinh_size")) {
		t.Error("no feature has heavy tails")
	}
}

// TestLateClassJudges: of a class that was added later, the same examples judge the latest
// version as of the others.
func TestLateClassJudges(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	next := func(i, classes int) *stream.Example {
		a, b := r.NormFloat64(), r.NormFloat64()
		k := math.Floor((math.Atan2(a, b)/math.Pi + 1) / 2 * float64(classes))
		return &stream.Example{Seq: uint64(i + 1), Labelled: true, Y: k, X: stream.Vec{Val: []float32{float32(a), float32(b)}}}
	}
	a, err := Spec.New(algos.Env{Seed: 1, Classes: 3, PublishEvery: 1100, Log: slog.New(slog.DiscardHandler)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := a.(*classes)
	follow := func(from, to, classes int) {
		for i := from; i < to; i++ {
			if _, _, err := c.Follow(t.Context(), make([]float64, classes), []*stream.Example{next(i, classes)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	follow(0, 1200, 3) // a new class learns from the latest 1,024
	if err := c.AddClass(t.Context()); err != nil {
		t.Fatal(err)
	}
	follow(1200, 1730, 4)
	xs := make([]*stream.Example, 64)
	for i := range xs {
		xs[i] = next(1730+i, 4)
	}
	if err := c.share(nil); err != nil {
		t.Fatal(err)
	}
	want, n := c.heads[0].agedScores(xs, c.heads[0].detector.Seen()), 0
	for i, one := range c.heads[3].agedScores(xs, c.heads[3].detector.Seen()) {
		if one.stands != want[i].stands || (one.scores == nil) != (want[i].scores == nil) {
			t.Errorf("example %d stands for %v, of the first class for %v", i, one.stands, want[i].stands)
		}
		if one.scores != nil {
			n++
		}
	}
	if n == 0 {
		t.Error("no example judges")
	}
	togetherAs(t, c, xs, 3)
}

// TestClassesHoldExamplesOnce: examples and neighbours are in a state, and in what is restored,
// once for all classes. States in which each class has its own are read, too.
func TestClassesHoldExamplesOnce(t *testing.T) {
	const n, dim = 700, 30
	r := rand.New(rand.NewPCG(9, 9))
	env := algos.Env{Seed: 1, Classes: 3, PublishEvery: 250}
	l, err := Spec.New(env, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := l.(*classes)
	for i := range n {
		x := &stream.Example{Seq: uint64(i + 1), Y: float64(r.IntN(3)), Labelled: true, X: stream.Vec{Val: make([]float32, dim)}}
		for j := range x.X.Val {
			x.X.Val[j] = float32(x.Y*float64(j%2) + r.NormFloat64())
		}
		if _, _, err := c.Follow(t.Context(), make([]float64, 3), []*stream.Example{x}); err != nil {
			t.Fatal(err)
		}
	}
	once := algostest.Bytes(t, l)
	alone := algostest.Bytes(t, c.heads[1])
	for _, h := range c.heads[1:] {
		h.first, h.version.near.shared = nil, false
	}
	each := algostest.Bytes(t, l)
	// Two classes less have the examples, their points, and those of a version after 500 at least.
	if less := len(each) - len(once); less < 2*4*dim*(n+n+500) {
		t.Errorf("%d bytes instead of %d", len(once), len(each))
	}
	for i, data := range [][]byte{each, each, once, once} {
		if i%2 == 0 { // then into one that is in use
			l, err = Spec.New(env, nil)
		}
		if err == nil {
			err = l.UnmarshalBinary(data)
		}
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(algostest.Bytes(t, l), once) {
			t.Error("restored, the state is different")
		}
	}
	c = l.(*classes)
	x, y := c.heads[0], c.heads[2]
	if &x.detector.Newest(1)[0].X.Val[0] != &y.detector.Newest(1)[0].X.Val[0] || x.version.near.points != y.version.near.points || x.version.inputs != y.version.inputs {
		t.Error("restored, each class has its own")
	}
	for _, part := range []string{"labels", "expert.y"} {
		other, err := Spec.New(env, nil)
		if err == nil {
			err = other.UnmarshalBinary(once)
		}
		if err != nil {
			t.Fatal(err)
		}
		heads := other.(*classes).heads
		switch part {
		case "labels":
			heads[0].detector.Add(x.detector.Newest(1)[0])
		case "expert.y":
			near := heads[0].near()
			near.y = near.y[1:]
		}
		if err := heads[1].UnmarshalBinary(alone); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s of another number of examples: %v", part, err)
		}
	}
}
