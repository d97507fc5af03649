package adaptive

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/contrib/synth"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// jumps draws a stream that stays the same until the growing SVM is large, and
// then changes every 600 examples: the label says whether a point is in a disc or
// out of it, which another feature, and its sign, decide from then on. The last feature
// has heavy tails. An eighth of the examples is unlabelled.
func jumps(n int) []*stream.Example {
	r := rand.New(rand.NewPCG(11, 11))
	xs := make([]*stream.Example, n)
	for i := range xs {
		v := make([]float32, 3)
		for j := range v {
			v[j] = float32(3 * (r.Float64() - 0.5) * math.Pow(10, float64(j)))
		}
		k := max(0, (i-2400)/600)
		a, b := float64(v[k%3])/math.Pow(10, float64(k%3)), float64(v[(k+1)%3])/math.Pow(10, float64((k+1)%3))
		v[2] *= float32(math.Pow(float64(v[2])/100, 8))
		x := &stream.Example{Seq: uint64(i + 1), X: stream.Vec{Val: v}, Labelled: i%8 != 5}
		if x.Labelled {
			x.Y = -1
			if (a*a+b*b < 1.4) == (k%2 == 0) != (r.Float64() < 0.02) {
				x.Y = 1
			}
		}
		xs[i] = x
	}
	return xs
}

// sea draws the SEA stream, with a change every 700 examples.
func sea(t testing.TB, n int) []*stream.Example {
	return generated(t, n, "sea", 4, map[string]string{"block": "700", "noise": "0.05"})
}

func generated(t testing.TB, n int, name string, seed uint64, options map[string]string) []*stream.Example {
	t.Helper()
	g, err := synth.New(name, seed, options)
	if err != nil {
		t.Fatal(err)
	}
	xs := make([]*stream.Example, n)
	for i := range xs {
		xs[i] = new(stream.Example)
		g.Next(xs[i])
	}
	return xs
}

// widening draws sparse examples of 300 features, and from the middle on of 5,000;
// some are dense nevertheless.
func widening(n int) []*stream.Example {
	r := rand.New(rand.NewPCG(12, 12))
	xs := make([]*stream.Example, n)
	for i := range xs {
		dim := 300
		if i >= n/2 {
			dim = 5000
		}
		x := &stream.Example{Seq: uint64(i + 1), Labelled: i%7 != 3}
		x.X.Idx = []int32{}
		sum := 0.0
		for j := r.IntN(40); j < dim; j += 1 + r.IntN(dim/10) {
			v := float32(r.NormFloat64())
			x.X.Idx, x.X.Val = append(x.X.Idx, int32(j)), append(x.X.Val, v)
			sum += float64(v) * float64(j%3-1)
		}
		if x.Labelled {
			if x.Y = 1; sum < 0 {
				x.Y = -1
			}
		}
		if i%50 == 20 {
			x.X = inDense(x.X)
		}
		xs[i] = x
	}
	return xs
}

func inDense(x stream.Vec) stream.Vec {
	val := make([]float32, x.Dim())
	for k, j := range x.Idx {
		val[j] = x.Val[k]
	}
	return stream.Vec{Val: val}
}

// TestWideEvents: a number in the thousands tells the classes apart, by a curve, beside
// hundreds of categories. Once m has learned it, m is cut when the labels change.
func TestWideEvents(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 13))
	env := algos.Env{Seed: 3, Log: slog.New(slog.DiscardHandler), Scaled: slices.Repeat([]bool{true}, 600)}
	env.Scaled[0] = false
	l, err := Spec.New(env, nil)
	if err != nil {
		t.Fatal(err)
	}
	right, tuned := 0, 0
	for i := range 3000 {
		v, noise := r.NormFloat64(), 1+r.Int32N(598)
		x := &stream.Example{Seq: uint64(i + 1), Labelled: true, Y: 1, X: stream.Vec{Idx: []int32{0, noise, 599}, Val: []float32{float32(3000 + 900*v), half, half}}}
		if math.Abs(v) < 0.67 != (i >= 2500) {
			x.Y = -1
		}
		if m := l.(*Learner).kernels[growing]; i >= 1000 && i < 2500 && (m.model().Decision(m.transform.Apply(x.X)) >= 0) == (x.Y > 0) {
			right++
		}
		if _, err := algos.Feed(t.Context(), l, x); err != nil {
			t.Fatal(err)
		}
		if m := l.(*Learner).kernels[growing]; m != nil && m.tuned != tuned {
			tuned = m.tuned
			for k := range standard.windows {
				if z := l.(*Learner).detector.Z(k); z != 0 {
					t.Errorf("after %d examples m is new, and compared with challenger %d by %v", i+1, k, z)
				}
			}
		}
	}
	if right < 1350 {
		t.Errorf("%d of 1500 are right, want 90 %%", right)
	}
	_, cuts := l.(*Learner).ChangePoints()
	for len(cuts) > 0 && cuts[0].At < 500 {
		cuts = cuts[1:]
	}
	if len(cuts) == 0 || cuts[0].At < 2500 || cuts[0].At > 2700 {
		t.Errorf("cuts %v, want the first between 2,500 and 2,700", cuts)
	}
}

const half = 0.70710678

func streams(t testing.TB) map[string][]*stream.Example {
	return map[string][]*stream.Example{"jumps": jumps(3700), "sea": sea(t, 1600), "widening": widening(300)}
}

func newPanel(t testing.TB, options map[string]string) *Learner {
	t.Helper()
	l, err := Spec.New(algos.Env{Seed: 3, Log: slog.New(slog.DiscardHandler)}, options)
	if err != nil {
		t.Fatal(err)
	}
	return l.(*Learner)
}

// run is what a learner predicted, NaN for unlabelled examples, and its state.
type run struct {
	decisions []float64
	state     []byte
}

// followed lets a learner follow xs in blocks of the sizes that next returns.
func followed(t testing.TB, l *Learner, xs []*stream.Example, next func() int) run {
	t.Helper()
	out := make([]float64, len(xs))
	for at := 0; at < len(xs); {
		n := min(next(), len(xs)-at)
		block := xs[at : at+n]
		labelled := 0
		for _, x := range block {
			if x.Labelled {
				labelled++
			}
		}
		learned, steps, err := l.Follow(t.Context(), out[at:at+n], block)
		if err != nil {
			t.Fatal(err)
		}
		if learned != labelled || steps != labelled {
			t.Fatalf("learned from %d of %d labelled examples, in %d steps", learned, labelled, steps)
		}
		at += n
	}
	for i, x := range xs {
		if !x.Labelled {
			out[i] = math.NaN()
		}
	}
	return run{out, algostest.Bytes(t, l)}
}

func (r run) hash() string {
	h := fnv.New64a()
	for _, f := range r.decisions {
		fmt.Fprintf(h, "%016x", math.Float64bits(f))
	}
	h.Write(r.state)
	return fmt.Sprintf("%016x", h.Sum64())
}

func (r run) compare(t testing.TB, what string, other run) {
	t.Helper()
	for i, f := range r.decisions {
		if math.Float64bits(f) != math.Float64bits(other.decisions[i]) {
			t.Fatalf("%s: example %d is decided %v, otherwise %v", what, i, other.decisions[i], f)
		}
	}
	if !bytes.Equal(r.state, other.state) {
		t.Fatalf("%s: another state", what)
	}
}

const vecChild = "STREAMSVM_ADAPTIVE_CHILD"

// TestSameBits: a changing stream gives the same decisions and the same state
// however it is cut into blocks, at any number of processors, on every code path
// of the CPU, and stored and restored in between.
func TestSameBits(t *testing.T) {
	if os.Getenv(vecChild) != "" {
		for name, xs := range streams(t) {
			if name == "jumps" && os.Getenv("STREAMSVM_LONG") == "" {
				continue
			}
			fmt.Printf("hash %s %s %s\n", name, followed(t, newPanel(t, nil), xs, func() int { return 256 }).hash(), vec.Code())
		}
		return
	}
	cut := map[string]uint64{}
	hashes := map[string]string{}
	for name, xs := range streams(t) {
		r := rand.New(rand.NewPCG(5, uint64(len(xs))))
		l := newPanel(t, nil)
		want := followed(t, l, xs, func() int { return 256 })
		hashes[name] = want.hash()
		cut[name], _ = l.ChangePoints()
		if name == "jumps" && (len(l.inputs.asinh) != 3 || l.inputs.asinh[2].Size == 0) {
			t.Errorf("asinh: %v", l.inputs.asinh)
		}
		t.Run(name+"/restored", func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			restored(t, r, xs, want)
		})
		t.Run(name+"/one by one", func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
			oneByOne(t, r, xs, want)
		})
		if name != "widening" && os.Getenv("STREAMSVM_LONG") == "" {
			continue
		}
		t.Run(name+"/labelled only", func(t *testing.T) {
			var known []*stream.Example
			var decisions []float64
			for i, x := range xs {
				if x.Labelled {
					known, decisions = append(known, x), append(decisions, want.decisions[i])
				}
			}
			got := followed(t, newPanel(t, nil), known, func() int { return 1 + r.IntN(300) })
			run{decisions, want.state}.compare(t, "without the unlabelled examples", got)
		})
	}
	if cut["jumps"] < 2 || cut["sea"] < 1 {
		t.Errorf("too few cuts for this test: %v", cut)
	}
	codes := []string{"avx2"}
	if os.Getenv("STREAMSVM_LONG") != "" {
		codes = append(codes, "generic")
	}
	for _, code := range codes {
		t.Run(code, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run", "^TestSameBits$")
			cmd.Env = append(os.Environ(), vecChild+"=1", "STREAMSVM_VEC="+code)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			seen := 0
			for line := range strings.Lines(string(out)) {
				var name, hash, used string
				if n, _ := fmt.Sscanf(line, "hash %s %s %s", &name, &hash, &used); n == 3 {
					seen++
					if hash != hashes[name] {
						t.Errorf("%s on %s: %s, here %s", name, used, hash, hashes[name])
					}
				}
			}
			if seen < 2 {
				t.Errorf("%d streams reported\n%s", seen, out)
			}
		})
	}
}

// restored stores a learner at random moments and after each cut, and goes on with
// another one that has taken the state over, which is new or was in use.
func restored(t *testing.T, r *rand.Rand, xs []*stream.Example, want run) {
	l, used := newPanel(t, nil), newPanel(t, nil)
	followed(t, used, xs[len(xs)/3:len(xs)/2], func() int { return 100 })
	var all []float64
	cuts := uint64(0)
	for at := 0; at < len(xs); {
		n := min(1+r.IntN(40), len(xs)-at)
		all = append(all, followed(t, l, xs[at:at+n], func() int { return n }).decisions...)
		at += n
		total, _ := l.ChangePoints()
		if total == cuts && r.IntN(len(xs)/200) > 0 {
			continue
		}
		cuts = total
		data := algostest.Bytes(t, l)
		next := newPanel(t, nil)
		if r.IntN(2) == 0 {
			next, used = used, l
		}
		if err := next.UnmarshalBinary(data); err != nil {
			t.Fatalf("after %d examples: %v", at, err)
		}
		if !bytes.Equal(data, algostest.Bytes(t, next)) {
			t.Fatalf("the state after %d examples changes as it is restored", at)
		}
		l = next
	}
	want.compare(t, "restored in between", run{all, algostest.Bytes(t, l)})
}

// oneByOne predicts each example by the model and then adds it. Now and then, and
// around cuts, the model is published: who reads it decides in the same bits.
func oneByOne(t *testing.T, r *rand.Rand, xs []*stream.Example, want run) {
	l := newPanel(t, nil)
	all := make([]float64, len(xs))
	cuts, published := uint64(0), map[string]int{}
	for i, x := range xs {
		m := l.Model()
		all[i] = m.Decision(x.X)
		total, _ := l.ChangePoints()
		if total != cuts || r.IntN(len(xs)/40) == 0 {
			kind := "in between"
			if total != cuts {
				kind = "after a cut"
			}
			published[kind]++
			publish(t, m, xs[i:min(i+40, len(xs))])
			publish(t, l.Published(), xs[i:min(i+40, len(xs))])
			cuts = total
		}
		if !x.Labelled {
			all[i] = math.NaN()
		}
		algostest.Feed(t, l, x)
	}
	t.Logf("models published: %v", published)
	if len(xs) > 2500 && (published["in between"] < 10 || published["after a cut"] < 2) {
		t.Errorf("models published: %v", published)
	}
	for i, v := range want.decisions { // rows of gradient experts are drawn as functions of other inputs
		if math.Abs(all[i]-v) <= 1e-8 {
			all[i] = v
		}
	}
	want.compare(t, "one by one", run{all, algostest.Bytes(t, l)})
}

func publish(t *testing.T, m algos.Model, xs []*stream.Example) {
	t.Helper()
	data := algostest.Bytes(t, m)
	read, err := Spec.DecodeModel(data)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, algostest.Bytes(t, read)) {
		t.Fatal("a model that was read is written otherwise")
	}
	if a, b := m.Info(), read.Info(); a != b {
		t.Fatalf("the model is %+v, and read %+v", a, b)
	}
	fast := read.(interface{ Compile() algos.Model }).Compile()
	for i, x := range xs {
		a, b := m.Decision(x.X), read.Decision(x.X)
		if math.Float64bits(a) != math.Float64bits(b) {
			t.Fatalf("probe %d is decided %v, by the model read %v", i, a, b)
		}
		if c := fast.Decision(x.X); math.Abs(c-a) > 5e-4*(1+math.Abs(a)) {
			t.Fatalf("probe %d is decided %v, compiled %v", i, a, c)
		}
	}
}

// TestDenseIsSparse: how an example is written makes no difference.
func TestDenseIsSparse(t *testing.T) {
	xs := jumps(1000)
	other := make([]*stream.Example, len(xs))
	r := rand.New(rand.NewPCG(13, 13))
	for i, x := range xs {
		c := *x
		c.X = stream.Vec{Idx: []int32{0, 1, 2}, Val: x.X.Val}
		if r.IntN(3) == 0 {
			c.X = x.X
		}
		other[i] = &c
	}
	a := followed(t, newPanel(t, nil), xs, func() int { return 256 })
	b := followed(t, newPanel(t, nil), other, func() int { return 256 })
	a.state, b.state = nil, nil // the newest examples are kept as they came
	a.compare(t, "written sparse", b)
}

// TestSmallPanel: the small panel has neither dsg nor the largest window, is the same in any
// blocks, and survives storing.
func TestSmallPanel(t *testing.T) {
	small := map[string]string{"panel": "small"}
	xs := jumps(2400)
	l := newPanel(t, small)
	want := followed(t, l, xs, func() int { return 256 })
	at := slices.IndexFunc(l.experts, func(e entry) bool { return e.name == "dsg" })
	if dsg := l.experts[at].expert.(*randomFeatures); dsg.l != nil || l.fourier == nil || l.kernels[k2048] != nil || l.kernels[k256] == nil {
		t.Errorf("dsg %v, random features %v, kernel learners %v", dsg.l != nil, l.fourier != nil, l.kernels)
	}
	want.compare(t, "one by one", followed(t, newPanel(t, small), xs, func() int { return 1 }))
	again := newPanel(t, small)
	if err := again.UnmarshalBinary(want.state); err != nil {
		t.Fatal(err)
	}
	publish(t, again.Model(), xs[:50])
}

// TestFollowEnded: a context that has ended leaves the state as it
// was.
func TestFollowEnded(t *testing.T) {
	l := newPanel(t, nil)
	xs := sea(t, 300)
	want := followed(t, l, xs[:200], func() int { return 64 })
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := l.Follow(ctx, make([]float64, 100), xs[200:]); err == nil {
		t.Error("no error")
	}
	if !bytes.Equal(want.state, algostest.Bytes(t, l)) {
		t.Error("the state has changed")
	}
}

// FuzzState: no state makes the learner panic, and one that is accepted is written
// as it was read and can be learned from.
func FuzzState(f *testing.F) {
	xs := sea(f, 200)
	for _, n := range []int{0, 3, 70, 140} {
		l := newPanel(f, nil)
		followed(f, l, xs[:n], func() int { return 64 })
		if n == 3 {
			if _, err := l.Finish(f.Context()); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(algostest.Bytes(f, l))
	}
	wide := newPanel(f, nil)
	followed(f, wide, widening(30), func() int { return 64 })
	f.Add(algostest.Bytes(f, wide))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := newPanel(t, nil)
		if err := l.UnmarshalBinary(data); err != nil {
			return
		}
		again := newPanel(t, nil)
		stored := algostest.Bytes(t, l)
		if err := again.UnmarshalBinary(stored); err != nil {
			t.Fatalf("a state that was read cannot be written and read again: %v", err)
		}
		if !bytes.Equal(stored, algostest.Bytes(t, again)) {
			t.Fatal("the bytes change from one reading to the next")
		}
		l.Report()
		if _, _, err := l.Follow(t.Context(), make([]float64, 40), xs[160:]); err != nil {
			t.Skip(err)
		}
		algostest.Bytes(t, l.Model())
	})
}

// TestUncut: after a change, expert uncut goes on with all examples, m with the newest. If the change
// comes early, uncut starts later, on those kept. It ends where old examples mislead, but not as one
// of several classes; of a regression when m is full again.
func TestUncut(t *testing.T) {
	for name, tt := range map[string]struct {
		from, to   int // examples whose labels are inverted
		classes    int
		start, end int // examples that uncut has learned from at first, and in the end
	}{
		"late":            {300, 700, 0, 0, 0}, // starts at the cut
		"early":           {60, 160, 0, short.whole, 0},
		"several classes": {300, 700, 3, 0, 700},
		"regression":      {300, 700, 0, short.held, 0},
	} {
		task := algos.Classify
		if name == "regression" {
			task = algos.Regress
		}
		r := rand.New(rand.NewPCG(4, 4))
		l, err := newSized(algos.Env{Seed: 1, PublishEvery: 50, Task: task, Classes: tt.classes, Log: slog.New(slog.DiscardHandler)}, options{Panel: "auto", Loss: "squared"}, &short)
		if err != nil {
			t.Fatal(err)
		}
		h, _ := l.(*Learner)
		if c, ok := l.(*classes); ok {
			h = c.heads[1]
		}
		rows := func() int {
			if u := h.kernels[uncut]; u != nil {
				return u.rows
			}
			return 0
		}
		start := 0
		for i := range 700 {
			x := &stream.Example{Seq: uint64(i + 1), Labelled: true, X: stream.Vec{Val: []float32{float32(r.NormFloat64()), float32(r.NormFloat64())}}}
			switch positive := x.X.Val[0] > 0 != (i >= tt.from && i < tt.to); {
			case tt.classes > 0 && x.X.Val[1] > 1:
				x.Y = 2
			case positive:
				x.Y = 1
			case tt.classes == 0:
				x.Y = -1
			}
			if task == algos.Regress {
				x.Y = x.Y*math.Abs(float64(x.X.Val[0])) + r.NormFloat64()/4
			}
			if _, _, err := l.(algos.Sequential).Follow(t.Context(), make([]float64, max(1, tt.classes)), []*stream.Example{x}); err != nil {
				t.Fatal(err)
			}
			if _, place := h.ensemble(); rows() == 0 && i == 250 { // uncut is missing, or m stands in
				e := slices.IndexFunc(h.experts, func(e entry) bool { return e.name == "uncut" })
				at, s := -1, score{}
				if tt.classes > 0 {
					at, s = place[growing], h.scores[0][growing]
				}
				if place[e] != at || h.scores[0][e] != s {
					t.Errorf("%s: member %d with score %v, want %d, %v", name, place[e], h.scores[0][e], at, s)
				}
			}
			if n := rows(); start == 0 && n > 0 {
				if start = n; n != cmp.Or(tt.start, i+1) || i < tt.from || i > tt.from+200 {
					t.Errorf("%s: uncut has learned from %d examples at example %d", name, n, i+1)
				}
				if m := h.kernels[growing].rows; m > n/2 {
					t.Errorf("%s: m has learned from %d examples at example %d", name, m, i+1)
				}
			}
		}
		if end := rows(); start == 0 || end != tt.end {
			t.Errorf("%s: uncut has learned from %d examples at first, from %d in the end", name, start, end)
		}
	}
}
