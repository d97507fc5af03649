package tsgs3vm

import (
	"errors"
	"fmt"
	"sync"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/rff"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// modelCache bounds the bytes in which a decoded model caches frequencies.
const modelCache = 256 << 20

// featureModel is f(x) = scale·Σ_j coef_j·cos(2π(⟨ω_j,x⟩ + b_j)) + offset.
// Coefficients are in slots of one block of features each. Slot s has block s or,
// with a window of W fresh blocks, the newest block whose index is s modulo W. So a
// step that adds a block and shrinks the others changes one slot and the scale, in
// place: the encoding has them at fixed offsets, the coefficients last, which makes
// small deltas.
type featureModel struct {
	feats   *rff.Features // nil: f = 0
	dim     int
	fresh   bool
	next    uint64 // fresh: the index of the next block
	coef    []float64
	scale   float64
	offset  float64
	rho     float64 // of the served arm
	cluster float64 // weight of the cluster kernel that w was learned with
	choice  choice
	scored  *scored // cache of features that a learner's models use; nil for others
	pool    sync.Pool
}

// choice says what a model is.
type choice uint64

const (
	only       choice = iota // there is no other
	supervised               // the supervised twin is served
	semi                     // an arm that uses unlabelled examples is served
)

var _ algos.Model = (*featureModel)(nil)

// block returns the index of the block in slot s.
func (m *featureModel) block(s int) uint64 {
	if !m.fresh {
		return uint64(s)
	}
	w := uint64(len(m.coef) / m.feats.Block())
	return blockIn(uint64(s), m.next, w)
}

// blockIn returns the largest index below next that is s modulo w.
func blockIn(s, next, w uint64) uint64 {
	last := next - 1
	return last - (last%w+w-s)%w
}

// Decision returns f(x).
func (m *featureModel) Decision(x stream.Vec) float64 {
	var f [1]float64
	m.Decisions(f[:], []stream.Vec{x})
	return f[0]
}

// scoreRows is the number of points scored at a time: their features of a block
// stay in the second-level cache.
const scoreRows = 256

type scoring struct {
	points rff.Points
	z      []float32
}

// Decisions sets dst[i] = f(xs[i]).
func (m *featureModel) Decisions(dst []float64, xs []stream.Vec) {
	if m.feats == nil {
		clear(dst[:len(xs)])
		return
	}
	w, _ := m.pool.Get().(*scoring)
	if w == nil {
		w = new(scoring)
	}
	defer m.pool.Put(w)
	for len(xs) > 0 {
		n := min(len(xs), scoreRows)
		w.points.Pack(xs[:n])
		b := m.feats.Block()
		if !m.sumsKept(dst[:n], xs[:n], &w.points) {
			if len(w.z) < n*b {
				w.z = make([]float32, n*b)
			}
			m.sums(dst[:n], w.z, &w.points)
		}
		for i := range dst[:n] {
			dst[i] = float64(m.scale*dst[i]) + m.offset
		}
		dst, xs = dst[n:], xs[n:]
	}
}

// sums sets dst[i] = Σ_j coef_j·feature_j, block by block in order of slots. z is
// scratch for the features of a block.
func (m *featureModel) sums(dst []float64, z []float32, p *rff.Points) {
	clear(dst)
	b := m.feats.Block()
	for s := 0; s*b < len(m.coef); s++ {
		m.feats.Map(z, b, p, m.block(s))
		for i := range dst {
			dst[i] += vec.DotMixed(z[i*b:][:b], m.coef[s*b:(s+1)*b])
		}
	}
}

// sumsOf sets dst[i*K+k] to the decision of part k of K for point i, with the bits
// of each part alone. The parts have the features of m, which are computed once.
func (m *featureModel) sumsOf(parts []*featureModel, dst []float64, z []float32, p *rff.Points) {
	clear(dst)
	b, n := m.feats.Block(), len(parts)
	for s := 0; s*b < len(m.coef); s++ {
		m.feats.Map(z, b, p, m.block(s))
		for i := range len(dst) / n {
			for k, part := range parts {
				dst[i*n+k] += vec.DotMixed(z[i*b:][:b], part.coef[s*b:(s+1)*b])
			}
		}
	}
	for i := range dst {
		part := parts[i%n]
		dst[i] = float64(part.scale*dst[i]) + part.offset
	}
}

// Info describes the model.
func (m *featureModel) Info() algos.Info {
	i := algos.Info{Kind: algos.Features, Dim: m.dim, Support: -1}
	if m.feats == nil {
		i.Text = "no step yet"
		return i
	}
	i.Nonzero = expansion.Nonzero(m.coef)
	i.Text = fmt.Sprintf("%s gamma=%.4g, %d random features", m.feats.Kind(), m.feats.Gamma(), len(m.coef))
	switch {
	case m.choice == supervised && m.cluster > 0:
		i.Text += fmt.Sprintf(", learned with the cluster kernel of unlabelled examples, weight %.4g", m.cluster)
	case m.choice == supervised:
		i.Text += ", the supervised twin: unlabelled examples have not proved to help"
	case m.choice == semi:
		i.Text += fmt.Sprintf(", semi-supervised with rho=%.4g", m.rho)
	}
	return i
}

func (m *featureModel) fields(f *state.Fields) {
	version := uint64(rff.Version)
	empty := m.feats == nil
	f.Uint64("generator", &version)
	f.Bool("empty", &empty)
	if f.Decoding() && version != rff.Version {
		f.Fail("generator", fmt.Errorf("version %d, want %d", version, rff.Version))
	}
	if empty {
		return
	}
	var seed uint64
	var gamma float64
	var block int
	kind := string(rff.Gaussian)
	laplace := false
	if !f.Decoding() {
		seed, gamma, block = m.feats.Seed(), m.feats.Gamma(), m.feats.Block()
		laplace = m.feats.Kind() == rff.Laplacian
	}
	f.Uint64("seed", &seed)
	f.Bool("laplacian", &laplace)
	f.Float64("gamma", &gamma)
	f.Int("block", &block)
	f.Int("dim", &m.dim)
	f.Bool("fresh", &m.fresh)
	f.Uint64("next", &m.next)
	f.Float64("scale", &m.scale)
	f.Float64("offset", &m.offset)
	f.Float64("rho", &m.rho)
	f.Float64("cluster", &m.cluster)
	c := uint64(m.choice)
	f.Uint64("choice", &c)
	f.Float64s("coef", &m.coef)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	m.choice = choice(c)
	if laplace {
		kind = string(rff.Laplacian)
	}
	feats, err := rff.New(rff.Spectrum(kind), gamma, block, seed, modelCache)
	if err != nil {
		f.Fail("gamma", err)
		return
	}
	m.feats = feats
	switch {
	case len(m.coef) == 0 || len(m.coef)%block != 0:
		f.Fail("coef", fmt.Errorf("%d coefficients in blocks of %d", len(m.coef), block))
	case m.fresh && m.next < uint64(len(m.coef)/block):
		f.Fail("next", fmt.Errorf("%d coefficients of %d blocks", len(m.coef), m.next))
	case m.choice > semi || m.dim < 0:
		f.Fail("choice", errors.New("out of range"))
	}
}

// AppendBinary appends the encoded model.
func (m *featureModel) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, m.fields) }

func decodeModel(data []byte) (algos.Model, error) {
	m := &featureModel{}
	if err := state.Decode(data, m.fields); err != nil {
		return nil, err
	}
	return m, nil
}
