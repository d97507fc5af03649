package adaptive

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
)

// column is an expert whose score is a feature of the example.
type column int

func (c column) scores(dst []float64, b *inputBatch) {
	for i, x := range b.xs {
		dst[i] = float64(x.Val[c])
	}
}

func (column) info(*algos.Info) {}

// board is a mixer with experts that are columns, and their versions.
type board struct {
	*mixer
	version *ensemble
	seen    uint64
	sums    [2]float64 // log losses of published versions, and of the rates of the classes
	counts  [2]float64 // of the labels
	place   []int      // of the experts, -1 for those that are not there
}

func newBoard(every int) *board {
	var experts []entry
	for i, name := range []string{"m", "dsg", "o0.5", "base"} {
		experts = append(experts, entry{name: name, slow: i > 0})
	}
	return &board{mixer: newMixer(algos.Env{PublishEvery: every}, 1, experts), place: slices.Clone(boardPlace)}
}

// boardPlace says that all experts are there.
var boardPlace = []int{0, 1, 2, 3}

// rate returns the log odds by the labels so far.
func (b *board) rate() float64 { return math.Log((b.counts[1] + 0.5) / (b.counts[0] + 0.5)) }

// publish returns what would be published now.
func (b *board) publish() *ensemble {
	m := new(ensemble)
	for e, x := range b.published.experts {
		m.members = append(m.members, member{x.name, column(e)})
	}
	b.published.publish(m, 0, b.place, b.place, b.calibrators[0], b.stack, b.shares.weights(), b.rate())
	return m
}

// learn lets the trainer's weights and those at age learn from an example.
func (b *board) learn(x []float32, y int) {
	scores := [][]score{make([]score, len(x))}
	for e, v := range x {
		scores[0][e] = score{float64(v), b.place[e] >= 0}
	}
	var aged [][]score
	if b.version != nil {
		aged = scores
		b.sums[0] += logLoss([]float64{b.version.Decision(stream.Vec{Val: x})}, y)
		b.sums[1] += logLoss([]float64{b.rate()}, y)
	}
	b.mixer.learn(scores, aged, nil, y, 1, 1)
	b.counts[y]++
	if b.seen++; b.published.due(b.seen, changes{}) {
		b.published.startVersion(b.seen, changes{}, b.calibrators, b.stack, b.shares.weights(), b.center(b.rate()), b.place)
		b.version = b.publish()
	}
}

// The terms of a version add up to the mean of what the rules predict one by one.
func TestVersionIsTheMeanOfTheRules(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 7))
	b := newBoard(200)
	row := func() ([]float32, int) {
		y := r.IntN(2)
		x := make([]float32, len(b.published.experts))
		for e := range x {
			x[e] = float32(float64(2*y-1)*0.5 + r.NormFloat64()*float64(e+1))
		}
		return x, y
	}
	for range 1500 {
		b.learn(row())
	}
	m, at, shares := b.publish(), b.published.afterVersion(), b.shares.weights()
	mix, proposals := at.mixture(boardPlace), at.propose(b.stack, shares, boardPlace)
	for range 50 {
		x, _ := row()
		sum := func(w []float64, of func(e int) float64) float64 {
			f := w[len(x)]
			for e := range x {
				f += w[e] * of(e)
			}
			return f
		}
		own := func(e int) float64 { return b.calibrators[0][e].logOdds(float64(x[e])) }
		aged := func(e int) float64 { c := at.calibration(0, e); return c.logOdds(float64(x[e])) }
		want := mix[ruleOwn] * at.shrink.of(sum(proposals[ruleOwn], own), at.center[0])
		var p float64
		for e := range x {
			p += shares[e] / (1 + math.Exp(-own(e)))
		}
		want += mix[ruleShare] * math.Log(p/(1-p))
		for q := ruleShare + 1; q < numRules; q++ {
			if q == ruleSlow {
				aged = func(e int) float64 { return at.calibrators[0][e].logOdds(float64(x[e])) }
			}
			want += mix[q] * sum(proposals[q], aged)
		}
		want -= b.rate()
		all := b.rate() + want*mix[numRules]
		for i, c := range caps[1:] {
			all += mix[numRules+1+i] * c * math.Tanh(want/c)
		}
		if got := m.Decision(stream.Vec{Val: x}); math.Abs(got-all) > 1e-9 {
			t.Fatalf("f(%v) = %v, want %v", x, got, all)
		}
		if all := m.pruned().Decision(stream.Vec{Val: x}); math.Abs(all-m.Decision(stream.Vec{Val: x})) > 0.4 {
			t.Errorf("f(%v) = %v, %v without what hardly counts", x, m.Decision(stream.Vec{Val: x}), all)
		}
	}
}

// Where the stream turns with every other version, a version is not sure of anything; where
// it does not, it is. The growing SVM is published alone only if nothing is better.
func TestVersionsOfAStreamThatTurns(t *testing.T) {
	for _, turns := range []bool{false, true} {
		r := rand.New(rand.NewPCG(4, 4))
		b := newBoard(200)
		for i := range 12_000 {
			y := r.IntN(2)
			m := float32(2*y-1) + float32(r.NormFloat64())
			if turns && i/200%2 == 1 {
				m = -m
			}
			b.learn([]float32{m, float32(r.NormFloat64()), float32(r.NormFloat64()), 0.1}, y)
		}
		f := math.Abs(b.publish().Decision(stream.Vec{Val: []float32{1, 0, 0, 0.1}}))
		if turns && f > 0.5 || !turns && f < 1.5 {
			t.Errorf("turns %v: log odds of %.2f", turns, f)
		}
		if e, alone := b.published.alone(); alone == turns || !turns && b.published.experts[e].name != "m" {
			t.Errorf("turns %v: expert %d is published alone: %v, losses %.2f", turns, e, alone, b.published.rules[:numRules])
		}
	}
}

// An expert that comes late has a weight as soon as it is good: the examples before it came do
// not count against it.
func TestLateExpert(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 6))
	b := newBoard(250)
	b.place[1] = -1 // dsg
	for i := range 2000 {
		if i == 1000 {
			b.place[1] = 1
		}
		y := r.IntN(2)
		x := make([]float32, 4)
		for e := range x {
			x[e] = float32(float64(2*y-1)*[]float64{0.9, 1.1, 0.3, 0}[e] + r.NormFloat64())
		}
		b.learn(x, y)
		if rules := b.published.mix; i < 1000 && b.published.versions > 0 && rules[ruleLong] != 0 {
			t.Fatalf("after %d examples the rule of an expert that is not there has weight %v", i+1, rules[ruleLong])
		}
	}
	rules := b.published.mixture(b.place)
	if rules[ruleLong] < rules[ruleKernel] {
		t.Errorf("rules' weights %.3f: that of the best expert has less than that of another", rules[:numRules])
	}
	if e := slices.Index(b.published.proposals[ruleLeader], 1); e != 1 {
		t.Errorf("the leader is expert %d", e)
	}
}

// An expert whose scores are as good as the growing SVM's and another's together keeps that
// from being published alone, also where neither says much.
func TestNotAlone(t *testing.T) {
	for _, noise := range []float64{2, 8} {
		r := rand.New(rand.NewPCG(4, 5))
		b := newBoard(200)
		row := func() ([]float32, int) {
			y := r.IntN(2)
			s := float64(2*y - 1)
			return []float32{float32(s + noise*r.NormFloat64()), float32(s + noise*r.NormFloat64()), 0, 0.1}, y
		}
		for range 8000 {
			b.learn(row())
		}
		if _, alone := b.published.alone(); alone {
			t.Errorf("noise %g: the losses of the rules are %.1f", noise, b.published.rules[:numRules])
		}
	}
}

// TestCapsFollowTheBest: whatever the losses of the caps, the Hedge over them is no worse than
// the best one by more than the bound of AdaHedge (de Rooij et al., Theorem 8), and the
// advantage that the first one has.
func TestCapsFollowTheBest(t *testing.T) {
	const versions, most = 2000, 6 * effective // a version's losses, in nats
	r := rand.New(rand.NewPCG(3, 9))
	for name, losses := range map[string]func(w []float64, i int) float64{
		"of what is trusted most": func(w []float64, i int) float64 {
			if w[i] == slices.Max(w) {
				return most
			}
			return 0
		},
		"at random": func([]float64, int) float64 { return most * float64(r.IntN(2)) },
		"of one": func(_ []float64, i int) float64 {
			if i == 0 {
				return most * r.Float64()
			}
			return most * float64(r.IntN(2))
		},
	} {
		p := newBoard(64).published
		p.versions, p.next = 1, p.every+1
		mean, sums := 0.0, make([]float64, numCaps)
		for range versions {
			p.mix = p.mixture(boardPlace)
			weights := p.mix[numRules:]
			for i, w := range weights {
				loss := losses(weights, i)
				p.sums[numRules+i] = loss
				mean, sums[i] = mean+w*loss, sums[i]+loss
			}
			p.count = effective
			p.endVersion()
		}
		k := math.Log(float64(numCaps))
		bound := most*math.Sqrt(versions*k) + most*(4*k/3+2) + capPrior/p.capRate()
		if regret := mean - slices.Min(sums); regret > bound {
			t.Errorf("losses %s: %.0f above the best cap, want at most %.0f", name, regret, bound)
		}
	}
}

// The k-th version counts k times as much as the first; from the 50th on, .98 is left of what came
// before with each version.
func TestLaterVersionsCountMore(t *testing.T) {
	for _, versions := range []int{2, 10, 50, 120} {
		for k := 2; k <= versions; k += versions / 2 {
			p := newBoard(64).published
			p.next, p.mix = p.every+1, make([]float64, numJudged)
			for v := 1; v <= versions; v++ {
				p.versions, p.count = uint64(v), effective
				if v == k {
					p.sums[ruleStack] = effective
				}
				p.endVersion()
			}
			share := min(float64(k), 50) / min(float64(versions), 50) * math.Pow(poolKeep, float64(max(versions, 50)-max(k, 50)))
			if got, want := p.rules[ruleStack], effective*share; math.Abs(got-want) > 1e-9*want {
				t.Errorf("version %d of %d counts %g, want %g", k, versions, got, want)
			}
		}
	}
}

// What is published is no worse than the rates of the classes in the long run, whatever the
// stream: labels turn after random lengths, with each version, or with each version that
// trusts the best expert.
func TestNoWorseThanTheRates(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 9))
		every := 64 << (seed % 2)
		b := newBoard(every)
		share, turned, left := []float64{0.5, 0.1}[seed%2], false, 0
		for range 400 * every {
			fresh := b.version != nil && b.seen == b.published.began
			switch left--; {
			case seed/2 == 0 && left < 0:
				turned, left = !turned, r.IntN(3*every)
			case seed/2 == 1 && fresh:
				turned = !turned
			case seed/2 == 2 && fresh:
				f := func(x float32) float64 { return b.version.Decision(stream.Vec{Val: []float32{x, 0, x, 0}}) }
				turned = f(1)-f(-1) > 1
			}
			y := 0
			if r.Float64() < share {
				y = 1
			}
			s := float32(2*y - 1)
			if turned {
				s = -s
			}
			b.learn([]float32{s, float32(r.NormFloat64()), s + float32(r.NormFloat64()), float32(b.rate())}, y)
		}
		n := float64(every)
		if excess := b.sums[0]/n - 1.01*b.sums[1]/n; excess > 2 {
			t.Errorf("seed %d: log loss is %.2f versions above the rates'", seed, excess)
		}
	}
}

// A version is less sure of the same scores when few versions before it were right.
func TestFewVersionsAreLessSure(t *testing.T) {
	var sure []float64
	for _, versions := range []uint64{1, 4, 30} {
		p := newBoard(200).published
		p.versions = versions
		sure = append(sure, capped(5, p.mixture(boardPlace)[numRules:]))
	}
	if !(sure[0] < 2.5 && sure[0] < sure[1] && sure[1] < sure[2] && sure[2] > 4.5) {
		t.Errorf("log odds of 5 become %.2f", sure)
	}
}

// A hundred labels of one class move the calibrations for the next example far more than those
// that are published.
func TestBurst(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 7))
	b := newBoard(200)
	offsets := func() (own, long float64) { return b.calibrators[0][0].offset, b.published.calibrators[0][0].offset }
	for i := range 4000 {
		b.learn([]float32{float32(r.NormFloat64()), 0, 1, 0.1}, i%5/4)
	}
	own, long := offsets()
	for range 100 {
		b.learn([]float32{float32(r.NormFloat64()), 0, 1, 0.1}, 1)
	}
	if o, l := offsets(); math.Abs(long-math.Log(.25)) > 0.2 || o-own < 0.8 || l-long > (o-own)/4 {
		t.Errorf("offsets of %.2f and %.2f become %.2f and %.2f", own, long, o, l)
	}
}
