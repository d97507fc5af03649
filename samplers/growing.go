package samplers

import (
	"errors"
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/stream"
)

// Rule names the way in which a growing sample chooses its next size.
type Rule string

const (
	// Fixed adds Growth.Step examples an iteration.
	Fixed Rule = "fixed"
	// Geometric multiplies the size by Growth.Ratio, rounded up.
	Geometric Rule = "geometric"
	// Theorem takes the size for which the sample objective is close to the
	// true one on a ball of radius δ: see Growth.N.
	Theorem Rule = "theorem"
)

// Growth says how S_k and T_k grow.
type Growth struct {
	Rule  Rule
	Step  int     // Fixed: examples an iteration, ≥ 0
	Ratio float64 // Geometric: factor, ≥ 1
	// Theorem: local approximation constant κ > 0, failure probability in
	// (0,1), and bound M ≥ 0 on |f(x)|.
	Kappa, PFail, M float64
	Initial         int // |S_0| ≥ 1
	Max             int // S_max ≥ Initial
	// TMax caps |T_k|, which is |S_k| otherwise; 0 draws no validation
	// examples.
	TMax int
	// Recycle lets T_k, once used, be the first choice for s_{k+1}. T_{k+1} is
	// fresh again, so validation stays independent of the sample.
	Recycle bool
	// Refresh is the number of examples an iteration that are wanted for
	// replacing others once |S_k| = Max; 0 leaves the sample as it is then.
	Refresh int
}

// N returns the sample size of Zhang and Sen, Theorem 3.3,
// ⌈8 ln(2/p)(M+1)²/(κ²δ⁴)⌉, or Max where that is less.
func (g Growth) N(delta float64) int {
	n := math.Ceil(8 * math.Log(2/g.PFail) * (g.M + 1) * (g.M + 1) / (g.Kappa * g.Kappa * delta * delta * delta * delta))
	if n < float64(g.Max) { // false for NaN, too
		return int(n)
	}
	return g.Max
}

// Size returns |S_k|, given |S_{k−1}| = size and the radius δ_{k−1}. A sample
// never shrinks.
func (g Growth) Size(size int, delta float64) int {
	want := size
	switch g.Rule {
	case Fixed:
		want += min(g.Step, g.Max)
	case Geometric:
		if x := math.Ceil(g.Ratio * float64(size)); x < float64(g.Max) {
			want = int(x)
		} else {
			want = g.Max
		}
	case Theorem:
		want = g.N(delta)
	}
	return max(size, min(want, g.Max))
}

// Validate names the first value that is out of bounds.
func (g Growth) Validate() error {
	bad := func(name string, v any, bound string) error {
		return fmt.Errorf("growth: %s = %v is not %s", name, v, bound)
	}
	switch {
	case g.Rule != Fixed && g.Rule != Geometric && g.Rule != Theorem:
		return bad("rule", g.Rule, "fixed, geometric or theorem")
	case g.Initial < 1:
		return bad("initial size", g.Initial, "at least 1")
	case g.Max < g.Initial:
		return bad("largest size", g.Max, fmt.Sprintf("at least the initial size %d", g.Initial))
	case g.TMax < 0:
		return bad("t_max", g.TMax, "at least 0")
	case g.Refresh < 0:
		return bad("refresh", g.Refresh, "at least 0")
	case g.Rule == Fixed && g.Step < 0:
		return bad("step", g.Step, "at least 0")
	case g.Rule == Geometric && !(g.Ratio >= 1):
		return bad("ratio", g.Ratio, "at least 1")
	case g.Rule == Theorem && !(g.Kappa > 0):
		return bad("kappa", g.Kappa, "above 0")
	case g.Rule == Theorem && !(g.PFail > 0 && g.PFail < 1):
		return bad("failure probability", g.PFail, "in (0,1)")
	case g.Rule == Theorem && !(g.M >= 0):
		return bad("M", g.M, "at least 0")
	}
	return nil
}

// Growing draws the growing sample S_k and the validation samples T_k of a
// stochastic method from a stream (Zhang and Sen, "A Stochastic Conjugate
// Subgradient Algorithm for Kernelized Support Vector Machines", Algorithm 1,
// lines 7 and 8).
//
// Iteration by iteration the caller
//
//  1. adds examples until Need is 0,
//  2. takes s_k and T_k,
//  3. puts each example of s_k into S with Append (or Replace),
//  4. calls Plan with the radius δ_k, which fixes the next sizes.
//
// At the start S_0 is planned: Initial examples without validation draws.
//
// Of S only sequence numbers and labels are kept; features stay where the
// learner has them. Memory: 16 bytes for each of at most Max members of S, and
// the pending examples, at most |s_k| + |T_k| + min(TMax, |S_k|) of them.
type Growing struct {
	rule Growth
	seq  []uint64
	y    []float64
	// used is T_{k−1}, from which s_k is taken first if recycled.
	used, fresh []*stream.Example
	join, test  int // |s_k| and |T_k| as planned
}

// NewGrowing returns an empty sample. The error is that of g.Validate.
func NewGrowing(g Growth) (*Growing, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	return &Growing{rule: g, join: g.Initial}, nil
}

// Growth returns the rule.
func (g *Growing) Growth() Growth { return g.rule }

// Plan fixes the sizes of s_k and T_k for the next iteration.
func (g *Growing) Plan(delta float64) {
	n := len(g.seq)
	size := max(n, g.rule.Size(n, delta))
	g.join = size - n
	if n >= g.rule.Max {
		g.join = g.rule.Refresh
	}
	g.test = min(size, g.rule.TMax)
}

// Planned returns the sizes of s_k and T_k that the next Take hands out.
func (g *Growing) Planned() (join, validate int) { return g.join, g.test }

// Need returns the number of further examples to be added before Take.
func (g *Growing) Need() int {
	return max(0, max(0, g.join-len(g.used))+g.test-len(g.fresh))
}

// Done reports whether no further example will ever be wanted.
func (g *Growing) Done() bool {
	return len(g.seq) >= g.rule.Max && g.rule.Refresh == 0 && g.rule.TMax == 0
}

// Add takes x in for the next iteration and reports whether it was wanted.
func (g *Growing) Add(x *stream.Example) bool {
	if g.Done() {
		return false
	}
	g.fresh = append(g.fresh, x)
	return true
}

// Take hands out s_k and T_k. Need must be 0. Recycled examples come
// first in s_k, otherwise both are in order of arrival. The examples of T_k may
// be handed out once more, in s_{k+1}.
func (g *Growing) Take() (join, validate []*stream.Example) {
	if g.Need() > 0 {
		panic("samplers: Take before Need is 0")
	}
	n := min(g.join, len(g.used))
	join = append(join, g.used[:n]...)
	n = g.join - n
	join = append(join, g.fresh[:n]...)
	validate = append(validate, g.fresh[n:n+g.test]...)
	g.fresh = append([]*stream.Example(nil), g.fresh[n+g.test:]...)
	g.used = nil
	if g.rule.Recycle {
		g.used = validate
	}
	g.join, g.test = 0, 0 // until the next Plan
	return join, validate
}

// Rest empties the sampler of all pending examples, recyclable ones first, and
// returns them in order: what is left when a stream has ended. At most Max −
// Len() are returned; the others are dropped.
func (g *Growing) Rest() []*stream.Example {
	all := append(append([]*stream.Example(nil), g.used...), g.fresh...)
	g.used, g.fresh = nil, nil
	return all[:min(len(all), max(0, g.rule.Max-len(g.seq)))]
}

// Pending returns the number of examples added and not yet handed out.
func (g *Growing) Pending() int { return len(g.fresh) }

// Append makes x the last member of S and returns its slot.
func (g *Growing) Append(x *stream.Example) int {
	g.seq = append(g.seq, x.Seq)
	g.y = append(g.y, x.Y)
	return len(g.seq) - 1
}

// Replace puts x into a slot of S and returns the sequence number of the
// example that was there.
func (g *Growing) Replace(slot int, x *stream.Example) (evicted uint64) {
	evicted = g.seq[slot]
	g.seq[slot], g.y[slot] = x.Seq, x.Y
	return evicted
}

// Keep reduces S to the given slots, in that order: afterwards slot i is what
// slots[i] was.
func (g *Growing) Keep(slots []int32) {
	seq, y := make([]uint64, len(slots)), make([]float64, len(slots))
	for i, s := range slots {
		seq[i], y[i] = g.seq[s], g.y[s]
	}
	g.seq, g.y = seq, y
}

// Len returns |S|.
func (g *Growing) Len() int { return len(g.seq) }

// Seq returns the sequence number of the example in a slot of S.
func (g *Growing) Seq(slot int) uint64 { return g.seq[slot] }

// Label returns the label of the example in a slot of S.
func (g *Growing) Label(slot int) float64 { return g.y[slot] }

// Labels returns all labels, by slot. They must not be changed.
func (g *Growing) Labels() []float64 { return g.y }

// Bytes returns about how much memory is held.
func (g *Growing) Bytes() int {
	return 16*len(g.seq) + totalBytes(g.used) + totalBytes(g.fresh)
}

// Fields describes the state.
func (g *Growing) Fields(f *state.Fields) {
	f.Uint64s("seq", &g.seq)
	f.Float64s("y", &g.y)
	columns.Examples(f, "used", &g.used)
	columns.Examples(f, "fresh", &g.fresh)
	f.Int("join", &g.join)
	f.Int("test", &g.test)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	switch {
	case len(g.y) != len(g.seq):
		f.Fail("y", errors.New("lengths do not agree"))
	case len(g.seq) > g.rule.Max:
		f.Fail("seq", fmt.Errorf("%d members in a sample of at most %d", len(g.seq), g.rule.Max))
	case g.join < 0 || g.join > max(g.rule.Max, g.rule.Refresh):
		f.Fail("join", fmt.Errorf("%d is out of range", g.join))
	case g.test < 0 || g.test > g.rule.TMax:
		f.Fail("test", fmt.Errorf("%d is out of range", g.test))
	}
}
