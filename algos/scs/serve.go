package scs

import (
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// guarded reports whether a model must have a small duality gap and pass a test
// before it is put into use. Otherwise candidates take the paper's acceptance test,
// and the rest is as printed too: T stays out of the sample, the model between steps
// is the incumbent, and the line search is Algorithm 2, whose radius the test adapts.
// With the guard the line search is exact.
func (l *Learner) guarded() bool { return l.opt.guarded() }

func (c *classifier) guarded() bool { return c.opt.guarded() }

func (o *options) guarded() bool { return o.Accept == "guard" }

// certificate describes the model in use.
type certificate struct {
	given      bool    // there is a model in use
	latest     bool    // it has the present coefficients
	gap, bound float64 // its duality gap when it was put into use, and the bound for it then
	reduced    bool    // it is a reduced set of the expansion
	near       float64 // largest change of the decision at a support vector by the reduction
	skip, idle int     // the next skip models are not reduced; idle is how many were skipped last
}

// retain builds the model in use while its coefficients are still there.
func (l *Learner) retain() {
	if l.guarded() {
		l.each(func(_ int, c *classifier) {
			c.Model()
			c.cert.latest = false
		})
	}
}

// testLeast is the smallest number of draws on which two models are compared.
const testLeast = 30

// serve puts each new model into use that passes its checks on the test draws. The
// sample waits for the classifiers whose gap is too large.
func (l *Learner) serve(test []*stream.Example) {
	waits := make([]bool, len(l.classifiers))
	l.each(func(k int, c *classifier) {
		own := make([]*stream.Example, len(test))
		for i, x := range test {
			one := *x
			one.Y = l.sign(x, k)
			own[i] = &one
		}
		waits[k] = c.serve(own)
	})
	l.Wait(slices.Contains(waits, true))
}

// serve puts the present coefficients into use if their duality gap is within its
// bound, and the test draws, which neither that model nor the one in use has seen,
// do not show it to be worse. It reports whether the sample has to wait because the
// gap is too large.
func (c *classifier) serve(test []*stream.Example) (waits bool) {
	if !c.guarded() {
		return false
	}
	gap, ok := c.p.Gap()
	bound := c.gapBound(false)
	if !ok || gap > bound {
		c.counts.waited++
		return true
	}
	// reduce writes to c.cert, which must keep describing the model in use if the
	// new one is rejected. Only the back-off of the search, skip and idle, carries
	// over.
	known := c.cert
	next := c.reduce()
	if known.given && worse(next, c.Model(), test) {
		c.counts.rejected++
		known.skip, known.idle = c.cert.skip, c.cert.idle
		c.cert = known
		return false
	}
	c.counts.accepted++
	c.model = next
	c.cert.given, c.cert.latest, c.cert.gap, c.cert.bound = true, true, gap, bound
	return false
}

const (
	reduceLeast = 512 // an expansion with fewer support vectors is not worth reducing
	reduceMost  = 512 // points of a reduced set; the cost grows with their square
)

// outdate is called when the coefficients no longer match the model. With the guard
// the model stays in use.
func (c *classifier) outdate() {
	if !c.guarded() {
		c.model = nil
	}
}

// reduce returns the model with the present coefficients: a small reduced set of
// its support vectors if there is one, otherwise all of them. The search is
// expensive, so after each failure twice as many models are skipped, up to 16.
func (c *classifier) reduce() *expansion.Expansion {
	all := expansion.New(c.p.Basis, c.p.Alpha, 0)
	n := len(all.Coef())
	f := &c.cert
	f.reduced, f.near = false, 0
	switch {
	case c.opt.Reduce == 0 || n < reduceLeast:
		return all
	case f.skip > 0:
		f.skip--
		return all
	}
	// The scores at the support vectors are known from training; Reduce needs no
	// kernel values for them.
	scores := make([]float64, 0, n)
	for i, a := range c.p.Alpha {
		if a != 0 {
			scores = append(scores, c.p.S[i])
		}
	}
	set, near, ok := all.Reduce(scores, c.opt.Reduce, min(n/3, reduceMost))
	if !ok {
		f.idle = min(max(1, 2*f.idle), 16)
		f.skip = f.idle
		return all
	}
	f.reduced, f.near, f.idle = true, near, 0
	return set
}

// worse reports whether next is significantly worse than old on the test draws:
// more errors, and a mean hinge loss higher by more than three standard errors.
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
		// Paired differences on the same draws: draws that are hard for both models
		// cancel.
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

func (p *certificate) gauges() []stream.Measure {
	return []stream.Measure{
		{Name: "gap_bound", Value: p.bound},
		{Name: "reduction_change", Value: p.near},
	}
}

func (p *certificate) fields(f *state.Fields) {
	f.Bool("given", &p.given)
	f.Bool("latest", &p.latest)
	f.Float64("gap", &p.gap)
	f.Float64("bound", &p.bound)
	f.Bool("reduced", &p.reduced)
	f.Float64("near", &p.near)
	f.Int("skip", &p.skip)
	f.Int("idle", &p.idle)
}

// modelFields stores the model in use if it cannot be rebuilt from the coefficients.
func (c *classifier) modelFields(f *state.Fields) {
	if !c.cert.given || c.cert.latest || f.Err() != nil {
		return
	}
	f.Nested("model", func(dst []byte) ([]byte, error) { return c.Model().AppendBinary(dst) }, func(data []byte) error {
		m, err := expansion.Decode(data)
		if err == nil {
			c.model = m.(*expansion.Expansion)
		}
		return err
	})
}
