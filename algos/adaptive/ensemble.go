package adaptive

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/stream"
)

// ensemble is the model of the classifier: the log odds
//
//	f(x) = b + Σ_t w_t L_t(x) + v logit(Σ_t q_t σ(L_t(x))/Σ_t q_t), at most ±8,
//
// where L_t are an expert's calibrated log odds (see calibration), w_t weights of log odds and
// q_t weights of probabilities. The distance of f to a center is capped (see caps). An expert
// can have two terms: one calibrated for the next example, one for published versions.
type ensemble struct {
	inputs  *inputs  // nil: no member takes standardised inputs
	seed    uint64   // seed of the random features
	fourier *fourier // nil: none
	splines *splines // nil: none
	near    *neighbours
	members []member
	terms   []term
	bias    float64
	mixed   float64 // v
	// caps are the weights of d, the distance of f to the center, and of c tanh(d/c) for
	// each further c of the global list caps; empty: f is not capped.
	caps   []float64
	center float64
	limits *limits // of a regression, whose terms are not calibrated; nil: classifier
}

// member is an expert's function and name.
type member struct {
	name string
	function
}

// term is a member's contribution to f.
type term struct {
	member int
	calibration
	weight float64 // of log odds, w
	share  float64 // of probabilities, q
}

// chunk is the number of examples scored together.
const chunk = 64

// inputsOf returns xs in the forms that the members take.
func (m *ensemble) inputsOf(xs []stream.Vec) *inputBatch {
	b := &inputBatch{xs: xs}
	if m.inputs == nil {
		return b
	}
	b.zs = make([]stream.Vec, len(xs))
	for i, x := range xs {
		b.zs[i] = m.inputs.apply(x)
	}
	b.rows = b.zs
	if m.inputs.wide {
		b.rows = make([]stream.Vec, len(xs))
		for i, z := range b.zs {
			b.rows[i] = unitLength(z)
		}
	}
	if m.fourier != nil {
		b.phis = m.fourier.ofAll(nil, b.zs...)
	}
	if m.splines != nil {
		b.hats = m.splines.ofAll(new(stream.Vec), m.inputs, xs, b.zs)
	}
	if m.near != nil {
		s := searches.Get().(*search) // a model is used by several goroutines
		defer searches.Put(s)
		b.votes = make([][2]vote, len(xs))
		for from := 0; from < len(xs); from += tick {
			to := min(from+tick, len(xs))
			s.begin(m.near, b.zs[from:to]...)
			for i := from; i < to; i++ {
				b.votes[i] = s.votes(i - from)
			}
		}
		s.of = nil
	}
	return b
}

var searches = sync.Pool{New: func() any { return new(search) }}

// scores writes the scores of member k to dst[k].
func (m *ensemble) scores(dst [][]float64, b *inputBatch) {
	for k, f := range m.members {
		f.scores(dst[k], b)
	}
}

// Decision returns f(x).
func (m *ensemble) Decision(x stream.Vec) float64 { return decision(m, x) }

func decision(m algos.Model, x stream.Vec) float64 {
	var f [1]float64
	m.Decisions(f[:], []stream.Vec{x})
	return f[0]
}

// Decisions sets dst[i] = f(xs[i]).
func (m *ensemble) Decisions(dst []float64, xs []stream.Vec) {
	for some := range slices.Chunk(xs, chunk) {
		m.decide(dst[:len(some)], m.inputsOf(some))
		dst = dst[len(some):]
	}
}

// decide sets dst[i] to f of example i of the batch.
func (m *ensemble) decide(dst []float64, b *inputBatch) {
	s := newRows(len(m.members), len(dst))
	m.scores(s, b)
	if m.limits != nil {
		m.numbers(dst, s)
		return
	}
	for i := range dst {
		var f float64
		var mixed mixing
		for _, t := range m.terms {
			l := t.logOdds(s[t.member][i])
			f += float64(t.weight * l)
			if t.share > 0 {
				mixed.add(t.share, l)
			}
		}
		f += m.bias
		if m.mixed > 0 {
			f += float64(m.mixed * mixed.logOdds())
		}
		f = bounded(f, mostLogOdds)
		if len(m.caps) > 0 {
			f = m.center + capped(f-m.center, m.caps)
		}
		dst[i] = f
	}
}

// Info describes the model.
func (m *ensemble) Info() algos.Info {
	i := algos.Info{Kind: algos.Mixture}
	if m.inputs != nil {
		i.Dim = len(m.inputs.mean)
		if m.inputs.wide {
			i.Dim = len(m.inputs.most)
		}
	}
	for _, f := range m.members {
		f.info(&i)
	}
	weights := make([]float64, len(m.members))
	for _, t := range m.terms {
		weights[t.member] += t.weight + float64(m.mixed*t.share)
	}
	lead := 0
	for k, w := range weights {
		if math.Abs(w) > math.Abs(weights[lead]) {
			lead = k
		}
	}
	if len(m.members) > 0 {
		i.Text = fmt.Sprintf("%d experts, most weight on %s, %.2f", len(m.members), m.members[lead].name, weights[lead])
	}
	if k, ok := m.only(); ok {
		i.Text = "one expert is enough: " + k.model.Info().Text
	}
	return i
}

// only returns the single member, if it is a kernel expansion.
func (m *ensemble) only() (*kernelFunction, bool) {
	if len(m.members) != 1 {
		return nil, false
	}
	k, ok := m.members[0].function.(*kernelFunction)
	return k, ok
}

// Compile returns the same function in a form that is faster to evaluate.
func (m *ensemble) Compile() algos.Model { return m.as(algos.Compiled) }

// Pack returns the form for publishing, which takes fewer bytes.
func (m *ensemble) Pack() algos.Model {
	c := m.as(algos.Packed)
	for i, f := range c.members {
		if l, ok := f.function.(*linearFunction); ok {
			c.members[i].function = l.packed()
		}
	}
	if c.near != nil && c.near.points != nil && !c.near.shared {
		near := *c.near
		near.points = near.points.InPlanes()
		c.near = &near
	}
	return c
}

// as returns a copy of m with form applied to its kernel functions.
func (m *ensemble) as(form func(algos.Model) algos.Model) *ensemble {
	c := *m
	c.members = append([]member(nil), m.members...)
	for i, f := range c.members {
		if k, ok := f.function.(*kernelFunction); ok {
			c.members[i].function = &kernelFunction{k.transform, form(k.model)}
		}
	}
	return &c
}

// ensembleMembers is the first field of an encoded ensemble. It distinguishes it from the
// models of earlier versions.
const ensembleMembers = "experts"

func (m *ensemble) fields(f *state.Fields) {
	m.limitFields(f)
	n := len(m.members)
	f.Int(ensembleMembers, &n)
	if f.Decoding() {
		if f.Err() == nil && (n < 0 || n > maxMembers) {
			f.Fail(ensembleMembers, fmt.Errorf("there are %d", n))
		}
		if f.Err() != nil {
			return
		}
		m.members = make([]member, n)
	}
	shared := m.inputs != nil
	f.Bool("inputs", &shared)
	if shared {
		m.inputFields(f)
	}
	for i := range m.members {
		f.Group("expert", func(f *state.Fields) { m.memberFields(f, &m.members[i]) })
	}
	f.List("terms", len(m.terms), 7, func(n int) { m.terms = make([]term, n) }, func(f *state.Fields, i int) {
		t := &m.terms[i]
		f.Int("expert", &t.member)
		t.calibration.fields(f)
		f.Float64("weight", &t.weight)
		f.Float64("share", &t.share)
	})
	f.Float64("bias", &m.bias)
	f.Float64("mixed", &m.mixed)
	f.Float64s("caps", &m.caps)
	if !f.Decoding() || f.More() { // in earlier models the center is 0
		f.Float64("center", &m.center)
	}
	if f.Decoding() && f.Err() == nil {
		f.Fail("terms", m.check())
	}
}

const maxMembers = 64

// inputFields describes what the members share.
func (m *ensemble) inputFields(f *state.Fields) {
	if f.Decoding() {
		m.inputs, m.near = new(inputs), nil
	}
	f.Group("inputs", m.inputs.fields)
	dim := m.fourier.features()
	f.Int("random_features", &dim)
	f.Uint64("seed", &m.seed)
	near := m.near != nil
	f.Bool("neighbours", &near)
	if f.Decoding() {
		m.fourier = restoredFourier(f, dim, m.inputs, m.seed)
		if near {
			m.near = &neighbours{number: m.limits != nil, shared: true}
		}
	}
	if near && f.Err() == nil {
		f.Group("points", m.near.fields)
	}
	splineFields(f, &m.splines, m.inputs)
}

func (m *ensemble) check() error {
	for _, e := range m.members {
		switch x := e.function.(type) {
		case *linearFunction:
			if m.inputs == nil || x.form == onPhi && m.fourier == nil || x.form == onSplines && m.splines == nil {
				return fmt.Errorf("expert %s: the inputs are missing", e.name)
			}
		case nearFunction:
			if m.near == nil {
				return fmt.Errorf("expert %s: the points are missing", e.name)
			}
		}
	}
	for _, t := range m.terms {
		if t.member < 0 || t.member >= len(m.members) {
			return fmt.Errorf("expert %d of %d", t.member, len(m.members))
		}
	}
	if !(m.mixed >= 0) {
		return fmt.Errorf("weight %g", m.mixed)
	}
	if len(m.caps) != 0 && len(m.caps) != len(caps) {
		return fmt.Errorf("%d caps", len(m.caps))
	}
	weights := append([]float64{m.bias, m.mixed, m.center}, m.caps...)
	for _, t := range m.terms {
		if !(t.share >= 0) {
			return fmt.Errorf("share %g", t.share)
		}
		weights = append(weights, t.weight, t.share)
	}
	return linear.Finite(weights)
}

// AppendBinary appends the encoded model.
func (m *ensemble) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, m.fields) }

var errNoEnsemble = errors.New("it is not an ensemble")

func decodeEnsemble(data []byte) (*ensemble, error) {
	m, err := decode(data)
	e, ok := m.(*ensemble)
	if err == nil && !ok {
		err = errNoEnsemble
	}
	return e, err
}

// shifted adds by to the log odds.
func (m *ensemble) shifted(by float64) *ensemble {
	m.bias, m.center = m.bias+by, m.center+by
	return m
}

// pruned returns m without the members that hardly count: those with the smallest weights, up
// to 2 % of the total weight.
func (m *ensemble) pruned() *ensemble {
	size := make([]float64, len(m.members))
	var all float64
	for _, t := range m.terms {
		v := math.Abs(t.weight)
		if m.limits == nil {
			v = (v + float64(m.mixed*t.share)) * (float64(knot*t.slope) + t.outer + math.Abs(t.offset))
		}
		size[t.member] += v
		all += v
	}
	order := make([]int, len(size))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size[a], size[b]) })
	gone, left := make([]bool, len(size)), 0.02*all
	for _, k := range order {
		if left -= size[k]; left < 0 && size[k] > 0 {
			break
		}
		gone[k] = true
	}
	out := &ensemble{bias: m.bias, mixed: m.mixed, caps: m.caps, center: m.center, seed: m.seed, limits: m.limits}
	place := make([]int, len(size))
	for k, e := range m.members {
		if gone[k] {
			continue
		}
		place[k] = len(out.members)
		out.members = append(out.members, e)
		switch x := e.function.(type) {
		case *linearFunction:
			out.inputs = m.inputs
			switch x.form {
			case onPhi:
				out.fourier = m.fourier
			case onSplines:
				out.splines = m.splines
			}
		case nearFunction:
			out.inputs, out.near = m.inputs, m.near
		}
	}
	for _, t := range m.terms {
		if !gone[t.member] && (t.weight != 0 || t.share != 0) {
			t.member = place[t.member]
			out.terms = append(out.terms, t)
		}
	}
	if out.limits != nil {
		out.keepSum()
	}
	return out
}
