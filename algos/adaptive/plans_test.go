package adaptive_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/adaptive"
	"github.com/streamsvm/streamsvm/checkpoint"
	_ "github.com/streamsvm/streamsvm/contrib/gate"           // its state is part of the state
	_ "github.com/streamsvm/streamsvm/contrib/scale/siftplan" // so are plans
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/internal/sift"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// A plan is a configuration and a stream. Any bytes make one: the first headBytes
// say how the engine is configured and what the stream is like at first. Each
// further segmentBytes change one thing, and are followed by examples and perhaps
// by a restart.
const (
	headBytes    = 8
	segmentBytes = 3
	mostItems    = 700 // and the labels that are due after them
	mostExamples = 560
)

// What a segment changes, and what its argument is.
const (
	same     = iota // nothing
	concept         // what labels depend on; with bit 7, the labels of the concept are inverted
	noise           // share of random labels, in 1/256
	form            // 0, 1: dense, sparse; 2: in turns
	dim             // features of sparse examples; from 128 on more than the default learner's 512
	scale           // features times 10^(argument−128)/8
	lateness        // most examples between an example and its label, with a join
	missing         // share of labels that never come, in 1/256
	twice           // share of labels that come twice, in 1/256
	early           // share of labels that come before their examples, in 1/256
	weight          // 0: none; 1 to 127: rare weights; from 128 on, as in a stream that was sifted
	constant        // features that stay the same
	repeat          // share of examples that repeat an earlier one, in 1/256
	extreme         // share of values at the ends of what is accepted, and beyond, in 1/256
	newClass        // share of labels of classes that are not listed, in 1/256
	broken          // share of further records in which there is no example, or a label for none, in 1/256
	numOps
)

// plan is what was decoded.
type plan struct {
	cfg   engine.Config
	items []engine.Item
	// after says what happens after so many items in the run that is disturbed: a
	// settlement, a call that is interrupted, or a restart.
	after map[int]byte
	seed  uint64
}

// Labels of the streams with several classes; unlisted ones are "10" and up.
const severalClasses = "0,1,2,3,4,5"

// decodePlan returns the same plan for the same bytes, with items of its own.
func decodePlan(data []byte) plan {
	head := make([]byte, headBytes)
	data = data[copy(head, data):]
	p := plan{after: map[int]byte{}}
	for _, b := range head {
		p.seed = p.seed*257 + uint64(b)
	}
	g := generator{r: rand.New(rand.NewPCG(p.seed, 1)), lateness: int(head[2]), dim: 1 + int(head[4]%9), scale: 1}
	p.cfg = engine.Config{Spec: adaptive.Short, Seed: uint64(head[5]), Window: []int{50, 1, 300, 0}[head[7]%4], Options: map[string]string{}}
	switch k := head[0] % 8; {
	case k < 3: // two classes
	case k < 6:
		g.classes = int(k) // 3, 4, 5
		p.cfg.Signature = codec.Signature{Labels: severalClasses[:2*g.classes-1]}
		p.cfg.MaxClasses = g.classes + 2
	default:
		g.number, p.cfg.Task = true, algos.Regress
		if k == 7 {
			p.cfg.Options["loss"] = "absolute"
		}
	}
	g.sparse = int(head[1] >> 4 % 3)
	switch wait := 1 + int(head[2]); head[1] % 4 {
	case 1:
		p.cfg.Delay = wait
	case 2, 3:
		p.cfg.Join = engine.Join{Topic: "labels", Window: wait}
		g.join = true
	}
	if head[3]&1 != 0 {
		p.cfg.Options["panel"] = "small"
	}
	if head[3]&2 != 0 {
		p.cfg.Gate = "error <= champion + 0.1; examples >= 200; demote >= 0.01"
		if g.number {
			p.cfg.Gate = "mae <= champion; examples >= 200; demote >= 0.01"
		}
	}
	if head[3]&4 != 0 {
		p.cfg.Scale, p.cfg.Warmup = "standard", 1+int(head[6]%64)
	}
	if head[3]&8 != 0 {
		p.cfg.ClassWeight = "none"
	} else if head[3]&16 != 0 && !g.number {
		p.cfg.ClassWeight = "1=7"
	}
	more := func() bool { return len(g.items) < mostItems && g.examples < mostExamples }
	for len(data) > 0 && more() {
		s := make([]byte, segmentBytes)
		data = data[copy(s, data):]
		g.change(s[0]%numOps, s[1])
		for n := 1 + s[2]%128; n > 0 && more(); n-- {
			g.example()
		}
		if act := s[0] / numOps; act > 0 {
			p.after[len(g.items)] = act
		}
	}
	g.release(math.MaxInt)
	p.items = g.items
	return p
}

// generator draws the examples of a plan.
type generator struct {
	r                                               *rand.Rand
	classes                                         int // 0: two
	number, join                                    bool
	concept, noise, sparse, dim, constant, lateness int
	missing, twice, early, weight, repeat, extreme  int
	fresh, broken                                   int
	scale                                           float64
	drawn                                           []stream.Vec
	items                                           []engine.Item
	labels                                          []due
	examples                                        int
}

// due is the record of a label that is to come after so many examples.
type due struct {
	at   int
	item engine.Item
}

func (g *generator) change(op, arg byte) {
	v := int(arg)
	switch op {
	case concept:
		g.concept = v
	case noise:
		g.noise = v
	case form:
		g.sparse = v % 3
	case dim:
		g.dim = 1 + v
		if v >= 128 {
			g.dim = 5 * v
		}
	case scale:
		g.scale = math.Pow(10, float64(v-128)/8)
	case lateness:
		g.lateness = 2 * v
	case missing:
		g.missing = v
	case twice:
		g.twice = v
	case early:
		g.early = v
	case weight:
		g.weight = v
	case constant:
		g.constant = v
	case repeat:
		g.repeat = v
	case extreme:
		g.extreme = v
	case newClass:
		g.fresh = v
	case broken:
		g.broken = v
	}
}

func (g *generator) chance(of256 int) bool { return g.r.IntN(256) < of256 }

// extremes are values at which something may overflow, vanish or be refused.
var extremes = []float64{0, math.Copysign(0, -1), 1e-45, -1e-38, 1e-20, 3e9, -1e12, 9e17, -9.9e17, 1e18, math.Inf(1), math.NaN()}

func (g *generator) vector() stream.Vec {
	if len(g.drawn) > 0 && g.chance(g.repeat) {
		return g.drawn[g.r.IntN(len(g.drawn))].Clone()
	}
	sparse := g.sparse == 1 || g.sparse == 2 && g.r.IntN(2) == 0
	x, n := stream.Vec{}, denseDim
	if sparse {
		x.Idx, n = []int32{}, g.dim
	}
	for j := 0; j < n; j++ {
		if sparse {
			if n > 16 {
				j = min(j+g.r.IntN(n/8), n-1)
			}
			x.Idx = append(x.Idx, int32(j))
		}
		v := g.scale * g.r.NormFloat64()
		if j < g.constant {
			v = float64(g.constant)
		}
		if g.extreme > 0 && g.r.IntN(1024) < g.extreme {
			v = extremes[g.r.IntN(len(extremes))]
		}
		x.Val = append(x.Val, float32(v))
	}
	g.drawn = append(g.drawn, x.Clone())
	return x
}

// denseDim is the dimension of dense examples, which the stream must agree on.
const denseDim = 3

// label returns the label of x, and what its class is called if it is not listed.
func (g *generator) label(x stream.Vec) (y float64, class string) {
	c := g.concept & 127
	score := 0.0
	for k, v := range x.Val {
		j := k
		if x.Sparse() {
			j = int(x.Idx[k])
		}
		score += float64(v) / g.scale * float64((j*7+c)%3-1+c%2)
	}
	if g.concept >= 128 {
		score = -score
	}
	if !(math.Abs(score) < 1e6) {
		score = 1
	}
	if g.chance(g.noise) {
		score = 4 * (g.r.Float64() - 0.5)
	}
	switch {
	case g.number:
		if g.extreme > 0 && g.chance(g.extreme/8) {
			return extremes[g.r.IntN(len(extremes))], ""
		}
		return score * g.scale, ""
	case g.classes == 0:
		if score > 0 {
			return 1, ""
		}
		return -1, ""
	case g.chance(g.fresh / 8):
		return 0, fmt.Sprint(10 + g.r.IntN(4))
	}
	return float64(min(max(int(math.Floor(score))+g.classes/2, 0), g.classes-1)), ""
}

// example emits an example, and the labels that are due before and after it.
func (g *generator) example() {
	if g.chance(g.broken) {
		g.breakOne()
	}
	x := stream.Example{X: g.vector()}
	n := g.examples
	g.examples++
	x.Y, x.Class = g.label(x.X)
	x.Labelled = !g.chance(g.missing)
	item := engine.Item{Partition: stream.Partition{Topic: "events"}, Key: fmt.Sprint("k", n)}
	switch {
	case g.weight >= 128:
		item.Sifted = sift.Header{P: 1 / float64(1+g.r.IntN(1+g.weight-128)), Version: 1}
		x.Weight, x.Represents = float32(1/item.Sifted.P), float32(1/item.Sifted.P)
	case g.weight > 0 && g.r.IntN(4) == 0:
		x.Weight = float32(math.Pow(10, float64(g.r.IntN(g.weight)-64)/10))
	}
	if !g.join {
		if !x.Labelled {
			x.Y, x.Class = 0, ""
		}
		item.Example = x
		g.emit(item)
		return
	}
	label := engine.Item{Partition: stream.Partition{Topic: "labels"}, Key: item.Key, Example: stream.Example{Y: x.Y, Class: x.Class, Labelled: true}}
	if x.Labelled {
		at := n + g.r.IntN(1+g.lateness)
		if g.chance(g.early) {
			at = n - 1
		}
		g.labels = append(g.labels, due{at, label})
		if g.chance(g.twice) {
			g.labels = append(g.labels, due{at + g.r.IntN(1+g.lateness), label})
		}
	}
	if g.r.IntN(64) > 0 { // else it comes with its label besides
		x.Y, x.Class, x.Labelled = 0, "", false
	}
	item.Example = x
	g.release(n - 1)
	g.emit(item)
	g.release(n)
}

// breakOne emits a record in which there is no example.
func (g *generator) breakOne() {
	it := engine.Item{Partition: stream.Partition{Topic: "events"}}
	switch g.r.IntN(4) {
	case 0:
		it.Tombstone = true
	case 1:
		it.Err = &stream.RecordError{Topic: "events", Stage: stream.StageDecode, Err: errors.New("not an example")}
	case 2: // with another dimension
		it.Example.X = stream.Vec{Val: make([]float32, denseDim+1)}
	default: // a label for no example, or not a label
		it.Partition.Topic, it.Key = "labels", []string{"", "nobody", "nobody else"}[g.r.IntN(3)]
		it.Example.Y, it.Example.Labelled = float64(g.r.IntN(9)), true
	}
	g.emit(it)
}

// release emits the labels that are due after example n.
func (g *generator) release(n int) {
	slices.SortStableFunc(g.labels, func(a, b due) int { return a.at - b.at })
	k := 0
	for ; k < len(g.labels) && g.labels[k].at <= n; k++ {
		g.emit(g.labels[k].item)
	}
	g.labels = g.labels[k:]
}

func (g *generator) emit(it engine.Item) {
	it.Offset = int64(len(g.items))
	g.items = append(g.items, it)
}

func newEngine(t *testing.T, cfg engine.Config) *engine.Engine {
	t.Helper()
	e, err := engine.NewEngine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// consume hands items over; a gate may want some of them again.
func consume(t *testing.T, e *engine.Engine, items []engine.Item) {
	t.Helper()
	for len(items) > 0 {
		n, err := e.Consume(t.Context(), items)
		if err != nil {
			t.Fatal(err)
		}
		items = items[n:]
	}
}

// undisturbed runs a plan in one go.
func undisturbed(t *testing.T, data []byte) *engine.Engine {
	t.Helper()
	p := decodePlan(data)
	e := newEngine(t, p.cfg)
	consume(t, e, p.items)
	return e
}

// disturbed runs a plan in pieces, with what it says after some of them.
func disturbed(t *testing.T, data []byte) *engine.Engine {
	t.Helper()
	p := decodePlan(data)
	e := newEngine(t, p.cfg)
	r := rand.New(rand.NewPCG(p.seed, 2))
	for at := 0; at < len(p.items); {
		to := at + 1
		for to < len(p.items) && p.after[to] == 0 && r.IntN(40) > 0 {
			to++
		}
		consume(t, e, p.items[at:to])
		at = to
		switch act := p.after[at]; {
		case act == 0:
		case act%4 == 0:
			if err := e.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
		case act%4 == 1 && at < len(p.items): // interrupted, and tried again
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			n, err := e.Consume(ctx, p.items[at:])
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			at += n
		default:
			e = restarted(t, e, p.cfg)
		}
	}
	return e
}

// restarted returns a new engine with the state of e, by way of a file's bytes.
func restarted(t *testing.T, e *engine.Engine, cfg engine.Config) *engine.Engine {
	t.Helper()
	snap, err := e.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkModel(t, e)
	data, err := snap.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	if snap, err = checkpoint.Decode("checkpoint", data); err != nil {
		t.Fatal(err)
	}
	e = newEngine(t, cfg)
	if err := e.Restore(snap); err != nil {
		t.Fatalf("a state that was written is refused: %v", err)
	}
	if h := hash(t, e); h != snap.Header.StateHash {
		t.Fatalf("a restored state encodes to %x, stored as %x", h, snap.Header.StateHash)
	}
	return e
}

func hash(t *testing.T, e *engine.Engine) uint64 {
	t.Helper()
	h, err := e.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// checkModel: the model that is published decides as it does when it has been read,
// in finite numbers.
func checkModel(t *testing.T, e *engine.Engine) {
	t.Helper()
	p := e.Predictor()
	if p == nil {
		return
	}
	p = p.Pack()
	data, err := p.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	read, err := pipeline.Decode(data)
	if err != nil {
		t.Fatalf("a model that was written is refused: %v", err)
	}
	xs := []stream.Vec{{Val: []float32{1, -2, 0.5}}, {Idx: []int32{0, 2}, Val: []float32{-1e3, 3}}, {Idx: []int32{1}, Val: []float32{9e17}}}
	a, b := make([]float64, len(xs)), make([]float64, len(xs))
	p.Decisions(a, xs)
	read.Decisions(b, xs)
	for i := range xs {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) || a[i]-a[i] != 0 {
			t.Fatalf("the model decides %g, that which was read %g", a[i], b[i])
		}
	}
}

// finish ends the stream. One without two different labels has no model.
func finish(t *testing.T, e *engine.Engine) error {
	t.Helper()
	err := e.Finish(t.Context())
	if one := (*stream.OneLabelError)(nil); err != nil && !errors.As(err, &one) {
		t.Fatal(err)
	}
	if err := e.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkModel(t, e)
	return err
}

// checkPlan: a plan makes nothing panic, restarts leave no trace in the state, and
// every record has one fate.
func checkPlan(t *testing.T, data []byte) (e *engine.Engine) {
	a, b := undisturbed(t, data), disturbed(t, data)
	for _, e := range []*engine.Engine{a, b} {
		if err := e.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, when := range []string{"at the end", "finished"} {
		if x, y := hash(t, a), hash(t, b); x != y {
			t.Fatalf("%s: state %x, after restarts %x", when, x, y)
		}
		c := b.Counts()
		if n := uint64(len(decodePlan(data).items)); c.Consumed != n || c.Learned+c.SampledOut+c.Dead+c.Tombstones+c.Joined+c.Late+c.Pending != n {
			t.Fatalf("%s: the fates of %d records do not add up: %+v", when, n, c)
		}
		if when == "finished" {
			break
		}
		if x, y := finish(t, a), finish(t, b); (x == nil) != (y == nil) {
			t.Fatalf("%v, after restarts %v", x, y)
		}
	}
	return b
}

// FuzzPlans runs the default learner through the engine, by plans.
func FuzzPlans(f *testing.F) {
	for _, data := range plans() {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkPlan(t, data) })
}

// segment returns a segment, after which act happens.
func segment(op, act, arg, length byte) []byte { return []byte{op + act*numOps, arg, length - 1} }

const (
	settleAfter  = 4
	cancelAfter  = 1
	restartAfter = 2
)

// plans returns plans in which much happens.
func plans() (all [][]byte) {
	for _, head := range [][headBytes]byte{
		{0, 0, 0, 0, 3, 1},         // two classes, labels at hand
		{0, 1, 60, 0, 3, 2},        // delayed
		{4, 2, 60, 0, 3, 3},        // four classes, joined
		{3, 1, 90, 2, 3, 4},        // three, delayed, with a gate
		{6, 2, 30, 2, 3, 5},        // numbers, joined
		{7, 0, 0, 4, 3, 6, 20},     // numbers, absolute loss, a warm-up
		{4, 18, 100, 4, 200, 7, 9}, // sparse, joined, a warm-up
		{0, 2, 200, 17, 3, 8},      // small panel, weights of classes
	} {
		plan := head[:]
		add := func(op, act, arg, length byte) { plan = append(plan, segment(op, act, arg, length)...) }
		add(same, restartAfter, 0, 100)
		add(noise, cancelAfter, 20, 90)
		add(concept, restartAfter, 4, 70)
		add(missing, settleAfter, 20, 40)
		add(concept, restartAfter, 9, 60)
		add(twice, 0, 40, 10)
		add(early, restartAfter, 60, 30)
		add(lateness, restartAfter, 100, 60)
		add(newClass, restartAfter, 60, 40)
		add(concept, 0, 130, 60)
		all = append(all, plan)
		other := append([]byte{}, head[:]...)
		plan = other
		add(repeat, restartAfter, 100, 60)
		add(form, 0, 2, 40)
		add(constant, restartAfter, 2, 70)
		add(weight, restartAfter, 100, 50)
		add(dim, restartAfter, 150, 60)
		add(weight, 0, 140, 30)
		add(broken, 0, 60, 20)
		add(extreme, restartAfter, 60, 60)
		add(scale, restartAfter, 100, 60)
		add(concept, restartAfter, 128, 90)
		all = append(all, plan)
	}
	// Four classes, delayed: as the longest challenger is dropped it is winning, by
	// what it predicted before.
	return append(all, slices.Concat([]byte{4, 1, 60, 0, 3, 3, 0, 0},
		segment(same, restartAfter, 0, 100), segment(noise, restartAfter, 6, 50), segment(concept, cancelAfter, 1, 110), segment(same, restartAfter, 0, 100)))
}

// With labels that come late, predictions are compared that a challenger made
// which has been dropped since. The stream changes before that, at various
// examples, so that the challenger wins where the growing SVM still knows the
// past.
func TestLateLabelsOfDroppedChallengers(t *testing.T) {
	for _, join := range []bool{false, true} {
		var cuts uint64
		for change := 100; change < 240; change += 20 {
			cfg := engine.Config{Spec: adaptive.Short, Seed: 1, Signature: codec.Signature{Labels: "0,1,2,3"}, Delay: 60}
			if join {
				cfg.Delay, cfg.Join = 0, engine.Join{Topic: "labels", Window: 100}
			}
			g := generator{r: rand.New(rand.NewPCG(uint64(change), 1)), classes: 4, scale: 1, join: join, lateness: 100, missing: 8}
			for i := range 400 {
				if i == change {
					g.concept = 1
				}
				g.example()
			}
			g.release(math.MaxInt)
			e := newEngine(t, cfg)
			consume(t, e, g.items)
			finish(t, e)
			n, _ := e.ChangePoints()
			cuts += n
		}
		if cuts == 0 {
			t.Error("no stream has made a learner cut its sample")
		}
	}
}
