package adaptive

import (
	"math"
	"math/rand/v2"
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

// board is a published with experts that are columns, and what the trainer hands to it.
type board struct {
	*published
	own    []calibrator
	stack  *stack
	shares []float64
	seen   uint64
}

func newBoard(every int) *board {
	var experts []entry
	for i, name := range []string{"m", "dsg", "o0.5", "base"} {
		experts = append(experts, entry{name: name, slow: i > 0})
	}
	n := len(experts)
	b := &board{published: newPublished(every, experts), stack: newStack(n+1, ownSpread, ownKeep)}
	for e := range n {
		b.own, b.shares = append(b.own, newCalibrator()), append(b.shares, 1/float64(n))
		b.stack.w[e] = 1 / float64(n)
	}
	return b
}

// columns returns an ensemble of all experts without terms.
func (b *board) columns() (m *ensemble, place []int) {
	m = new(ensemble)
	for e, x := range b.experts {
		m.members, place = append(m.members, member{x.name, column(e)}), append(place, e)
	}
	return m, place
}

// learn lets the trainer's weights and those at age learn from an example.
func (b *board) learn(x []float32, y float64) {
	scores := make([]score, len(x))
	for e, v := range x {
		scores[e] = score{float64(v), true}
		b.own[e].learn(float64(v), y, ownForget, 1)
	}
	b.stack.learn(logOddsOf(make([]float64, len(x)+1), scores, func(e int) *calibration { return &b.own[e].calibration }), y, 1)
	aged := b.scores([]stream.Vec{{Val: x}})
	if aged != nil {
		b.published.learn(aged[0], y, 1)
	}
	if b.seen++; b.due(b.seen) {
		m, place := b.columns()
		b.take(b.seen, m, place, b.own, b.stack, b.shares)
	}
}

// version returns what would be published now.
func (b *board) version() *ensemble {
	m, place := b.columns()
	b.publish(m, place, b.own, b.stack, b.shares)
	return m
}

// The terms of a version add up to the mean of what the rules predict one by one.
func TestVersionIsTheMeanOfTheRules(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 7))
	b := newBoard(200)
	row := func() ([]float32, float64) {
		y := float64(r.IntN(2))
		x := make([]float32, len(b.experts))
		for e := range x {
			x[e] = float32((2*y-1)*0.5 + r.NormFloat64()*float64(e+1))
		}
		return x, y
	}
	for range 1500 {
		b.learn(row())
	}
	m := b.version()
	mix, proposals := b.mixture(), b.propose(b.stack, b.shares)
	for range 50 {
		x, _ := row()
		sum := func(w []float64, of func(e int) float64) float64 {
			f := w[len(x)]
			for e := range x {
				f += w[e] * of(e)
			}
			return f
		}
		own := func(e int) float64 { return b.own[e].logOdds(float64(x[e])) }
		aged := func(e int) float64 { return b.calibrators[e].logOdds(float64(x[e])) }
		want := mix[ruleOwn] * (b.shrink.slope*sum(proposals[ruleOwn], own) + b.shrink.offset)
		var p float64
		for e := range x {
			p += b.shares[e] / (1 + math.Exp(-own(e)))
		}
		want += mix[ruleShare] * math.Log(p/(1-p))
		for q := ruleShare + 1; q < numRules; q++ {
			want += mix[q] * sum(proposals[q], aged)
		}
		all := want * mix[numRules]
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
			y := float64(r.IntN(2))
			m := float32(2*y-1) + float32(r.NormFloat64())
			if turns && i/200%2 == 1 {
				m = -m
			}
			b.learn([]float32{m, float32(r.NormFloat64()), float32(r.NormFloat64()), 0.1}, y)
		}
		f := math.Abs(b.version().Decision(stream.Vec{Val: []float32{1, 0, 0, 0.1}}))
		if turns && f > 0.5 || !turns && f < 1.5 {
			t.Errorf("turns %v: log odds of %.2f", turns, f)
		}
		if e, alone := b.alone(); alone == turns || !turns && b.experts[e].name != "m" {
			t.Errorf("turns %v: expert %d is published alone: %v, losses %.2f", turns, e, alone, b.rules[:numRules])
		}
	}
}

// An expert whose scores are as good as the growing SVM's and another's together keeps that
// from being published alone.
func TestNotAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	b := newBoard(200)
	for range 8000 {
		y := float64(r.IntN(2))
		s := float32(2*y - 1)
		b.learn([]float32{s + 2*float32(r.NormFloat64()), s + 2*float32(r.NormFloat64()), 0, 0.1}, y)
	}
	if _, alone := b.alone(); alone {
		t.Errorf("the losses of the rules are %.1f", b.rules[:numRules])
	}
}
