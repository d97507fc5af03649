package scs

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/state"
	"github.com/streamsvm/streamsvm/stream"
)

// guarded reports whether a model must have its duality gap and pass a test
// before it is in use.
func (l *Learner) guarded() bool { return l.o.Accept == "guard" }

// proof is what is known of the model in use.
type proof struct {
	given      bool    // there is one
	latest     bool    // it is that of the present coefficients
	gap, bound float64 // its duality gap when it came into use and the most it could have been
}

// guardedStep takes the draws in, optimises, and puts the result into use if
// it may be.
func (l *Learner) guardedStep() {
	grow, test := l.draws()
	l.Model() // the one in use, while there are the coefficients to make it from
	l.pace.since = 0
	switch {
	case l.p == nil:
		l.begin(grow - reserve(grow))
	case !l.pace.waits:
		m := l.p.Len()
		test -= reserve(test)
		l.tentative(test)
		l.pace.judge(l, m)
		l.absorb(m, min(test, l.wanted(m)))
		l.proof.latest = false
	}
	l.optimise(l.o.Iterations, false)
	l.serve(l.pend)
}

// reserve returns how many of n draws are kept for the test of the model that is
// made from the others. They are taken in with the next ones.
func reserve(n int) int { return n / 16 }

// serve puts the model of the present coefficients into use if its gap is
// within its bound and test, draws that neither it nor the one in use has seen,
// does not show that it is worse.
func (l *Learner) serve(test []*stream.Example) {
	gap, ok := l.p.Gap()
	bound := l.gapBound(false)
	l.pace.waits = !ok || gap > bound
	if l.pace.waits {
		l.counts.waited++
		return
	}
	next := kernel.NewExpansion(l.p.Basis, l.p.Alpha)
	if l.proof.given && worse(next, l.Model().(*kernel.Expansion), test) {
		l.counts.rejected++
		return
	}
	l.counts.accepted++
	l.model = next
	l.proof = proof{given: true, latest: true, gap: gap, bound: bound}
}

// worse reports whether next has a larger hinge loss than old on the test
// draws by more than three standard errors, and more errors. With few draws
// there is no telling.
func worse(next, old *kernel.Expansion, test []*stream.Example) bool {
	n := len(test)
	if n < 30 {
		return false
	}
	xs := make([]stream.Vec, n)
	for i, x := range test {
		xs[i] = x.X
	}
	a, b := make([]float64, n), make([]float64, n)
	next.Decisions(a, xs)
	old.Decisions(b, xs)
	var sum, square float64
	errors := 0
	for i, x := range test {
		d := max(0, 1-float64(x.Y*a[i])) - max(0, 1-float64(x.Y*b[i]))
		sum += d
		square += float64(d * d)
		if x.Y*a[i] <= 0 {
			errors++
		}
		if x.Y*b[i] <= 0 {
			errors--
		}
	}
	mean := sum / float64(n)
	deviation := math.Sqrt(max(0, square/float64(n)-float64(mean*mean)) / float64(n))
	return errors > 0 && mean > 3*deviation
}

func (p *proof) gauges() []stream.Measure {
	return []stream.Measure{{Name: "gap_bound", Value: p.bound}}
}

func (p *proof) fields(f *state.Fields) {
	f.Bool("given", &p.given)
	f.Bool("latest", &p.latest)
	f.Float64("gap", &p.gap)
	f.Float64("bound", &p.bound)
}

// modelFields stores the model in use where it does not follow from the
// coefficients.
func (l *Learner) modelFields(f *state.Fields) {
	if !l.proof.given || l.proof.latest || f.Err() != nil {
		return
	}
	var data []byte
	if !f.Decoding() {
		var err error
		if data, err = l.Model().AppendBinary(nil); err != nil {
			f.Fail("model", err)
			return
		}
	}
	f.Bytes("model", &data)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	m, err := kernel.DecodeExpansion(data)
	if err != nil {
		f.Fail("model", err)
		return
	}
	l.model = m.(*kernel.Expansion)
}
