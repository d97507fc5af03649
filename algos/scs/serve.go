package scs

import (
	"math"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// guarded reports whether a model must have its duality gap and pass a test
// before it is in use.
func (l *Learner) guarded() bool { return l.opt.guarded() }

func (o *options) guarded() bool { return o.Accept == "guard" }

// proof is what is known of the model in use.
type proof struct {
	given      bool    // there is one
	latest     bool    // it is that of the present coefficients
	gap, bound float64 // its duality gap when it came into use and the most it could have been
	reduced    bool    // it is a reduced set of the expansion
	near       float64 // the most by which that changed the decision at a support vector
	skip, idle int     // expansions not to be reduced: of those, how many are to come
}

// retain makes the model in use, while there are the coefficients to make it
// from.
func (l *Learner) retain() {
	if l.guarded() {
		l.Model()
		l.proof.latest = false
	}
}

// testLeast is the least number of draws that can tell two models apart.
const testLeast = 30

// serve puts the model of the present coefficients into use if its gap is
// within its bound and test, draws that neither it nor the one in use has seen,
// does not show that it is worse. It reports whether the sample has to wait,
// since the gap is larger.
func (l *Learner) serve(test []*stream.Example) (waits bool) {
	if !l.guarded() {
		return false
	}
	gap, ok := l.p.Gap()
	bound := l.gapBound(false)
	if !ok || gap > bound {
		l.counts.waited++
		return true
	}
	known := l.proof
	next := l.reduce()
	if known.given && worse(next, l.Model().(*expansion.Expansion), test) {
		l.counts.rejected++
		known.skip, known.idle = l.proof.skip, l.proof.idle
		l.proof = known
		return false
	}
	l.counts.accepted++
	l.model = next
	l.proof.given, l.proof.latest, l.proof.gap, l.proof.bound = true, true, gap, bound
	return false
}

const (
	reduceLeast = 512 // support vectors of an expansion that is worth reducing
	reduceMost  = 512 // points of a reduced set; the cost grows with their square
)

// outdate notes that the coefficients are others than those of the model: with
// the guard that stays in use nevertheless.
func (l *Learner) outdate() {
	if !l.guarded() {
		l.model = nil
	}
}

// reduce returns the model of the present coefficients: a reduced set of its
// support vectors where a small one does, and otherwise all of them. Each time
// that none is found, the search rests for twice as many models, up to 16.
func (l *Learner) reduce() *expansion.Expansion {
	all := expansion.New(l.p.Basis, l.p.Alpha, 0)
	n := len(all.Coef())
	f := &l.proof
	f.reduced, f.near = false, 0
	switch {
	case l.opt.Reduce == 0 || n < reduceLeast:
		return all
	case f.skip > 0:
		f.skip--
		return all
	}
	scores := make([]float64, 0, n)
	for i, a := range l.p.Alpha {
		if a != 0 {
			scores = append(scores, l.p.S[i])
		}
	}
	set, near, ok := all.Reduce(scores, l.opt.Reduce, min(n/3, reduceMost))
	if !ok {
		f.idle = min(max(1, 2*f.idle), 16)
		f.skip = f.idle
		return all
	}
	f.reduced, f.near, f.idle = true, near, 0
	return set
}

// worse reports whether next has a larger hinge loss than old on the test
// draws by more than three standard errors, and more errors.
func worse(next, old *expansion.Expansion, test []*stream.Example) bool {
	n := len(test)
	if n < testLeast {
		return false
	}
	xs := samplers.Vecs(test)
	a, b := make([]float64, n), make([]float64, n)
	next.Decisions(a, xs)
	old.Decisions(b, xs)
	var sum, square float64
	errors := 0.0
	for i, x := range test {
		v := x.Importance()
		d := float64(v * (max(0, 1-float64(x.Y*a[i])) - max(0, 1-float64(x.Y*b[i]))))
		sum += d
		square += float64(d * d)
		if x.Y*a[i] <= 0 {
			errors += v
		}
		if x.Y*b[i] <= 0 {
			errors -= v
		}
	}
	mean := sum / float64(n)
	deviation := math.Sqrt(max(0, square/float64(n)-float64(mean*mean)) / float64(n))
	return errors > 0 && mean > 3*deviation
}

func (p *proof) gauges() []stream.Measure {
	return []stream.Measure{
		{Name: "gap_bound", Value: p.bound},
		{Name: "reduction_change", Value: p.near},
	}
}

func (p *proof) fields(f *state.Fields) {
	f.Bool("given", &p.given)
	f.Bool("latest", &p.latest)
	f.Float64("gap", &p.gap)
	f.Float64("bound", &p.bound)
	f.Bool("reduced", &p.reduced)
	f.Float64("near", &p.near)
	f.Int("skip", &p.skip)
	f.Int("idle", &p.idle)
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
	m, err := expansion.Decode(data)
	if err != nil {
		f.Fail("model", err)
		return
	}
	l.model = m.(*expansion.Expansion)
}
