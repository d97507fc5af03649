// Package rffmodel holds the models of learners on random Fourier features.
package rffmodel

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/rff"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// Cache is the number of bytes of frequencies that a decoded model may keep.
const Cache = 256 << 20

// Model is f(x) = scale·Σ_j coef_j·cos(2π(⟨ω_j,x⟩ + b_j)) + offset. Coefficients
// are in slots of one block of features each. Slot s holds block s or, in a window
// of W fresh blocks, the newest block whose index is s modulo W. So a step that adds
// a block and shrinks the others changes only one slot and the scale, which keeps
// deltas between versions small.
type Model struct {
	Feats   *rff.Features // nil: f = 0
	Dim     int
	Fresh   bool
	Next    uint64 // fresh: the index of the next block
	Coef    []float64
	Scale   float64
	Offset  float64
	Rho     float64 // weight of unlabelled examples
	Cluster float64 // weight of the cluster kernel
	Choice  Choice
	// Sums, if not nil, sets dst[i*K+k] = Σ_j coef_j·feature_j for point i and part k of
	// K, which have the same features, and keeps the features for the learner. It returns
	// false if it cannot.
	Sums func(parts []*Model, dst []float64, xs []stream.Vec, p *rff.Points) bool
	pool sync.Pool

	packed bool // coefficients are encoded as float32
}

// Choice says which of a learner's models a model is.
type Choice uint64

const (
	Only       Choice = iota // the only model
	Supervised               // the model without unlabelled examples
	Semi                     // a model that uses unlabelled examples
)

var _ algos.Model = (*Model)(nil)

// block returns the index of the block in slot s.
func (m *Model) block(s int) uint64 {
	if !m.Fresh {
		return uint64(s)
	}
	w := uint64(len(m.Coef) / m.Feats.Block())
	return blockIn(uint64(s), m.Next, w)
}

// blockIn returns the largest index below next that is s modulo w.
func blockIn(s, next, w uint64) uint64 {
	last := next - 1
	return last - (last%w+w-s)%w
}

// Decision returns f(x).
func (m *Model) Decision(x stream.Vec) float64 {
	var f [1]float64
	m.Decisions(f[:], []stream.Vec{x})
	return f[0]
}

// Rows is the number of points scored at a time. Their features of one block fit
// into the second-level cache.
const Rows = 256

type scoring struct {
	points rff.Points
	z      []float32
	one    []*Model
}

// Decisions sets dst[i] = f(xs[i]).
func (m *Model) Decisions(dst []float64, xs []stream.Vec) {
	if m.Feats == nil {
		clear(dst[:len(xs)])
		return
	}
	w := m.scratch()
	defer m.pool.Put(w)
	w.one = append(w.one[:0], m)
	w.score(w.one, dst, xs)
}

func (m *Model) scratch() *scoring {
	if w, _ := m.pool.Get().(*scoring); w != nil {
		return w
	}
	return new(scoring)
}

// score sets dst[i*K+k] to the decision of part k of K for point i. The parts have the
// same features, which are computed once. The bits are the same as from each part alone.
func (w *scoring) score(parts []*Model, dst []float64, xs []stream.Vec) {
	first, k := parts[0], len(parts)
	b := first.Feats.Block()
	for len(xs) > 0 {
		n := min(len(xs), Rows)
		w.points.Pack(xs[:n])
		if first.Sums == nil || !first.Sums(parts, dst[:n*k], xs[:n], &w.points) {
			if len(w.z) < n*b {
				w.z = make([]float32, n*b)
			}
			w.sums(parts, dst[:n*k])
		}
		for i := range dst[:n*k] {
			part := parts[i%k]
			dst[i] = float64(part.Scale*dst[i]) + part.Offset
		}
		dst, xs = dst[n*k:], xs[n:]
	}
}

// sums sets dst[i*K+k] = Σ_j coef_j·feature_j for part k of K and point i, block by block
// in order of slots.
func (w *scoring) sums(parts []*Model, dst []float64) {
	clear(dst)
	m := parts[0]
	b, n := m.Feats.Block(), len(parts)
	for s := 0; s*b < len(m.Coef); s++ {
		m.Feats.Map(w.z, b, &w.points, m.block(s))
		for i := range len(dst) / n {
			for k, part := range parts {
				dst[i*n+k] += vec.DotMixed(w.z[i*b:][:b], part.Coef[s*b:(s+1)*b])
			}
		}
	}
}

// Info describes the model.
func (m *Model) Info() algos.Info {
	i := algos.Info{Kind: algos.Features, Dim: m.Dim, Support: -1}
	if m.Feats == nil {
		i.Text = "no step yet"
		return i
	}
	i.Nonzero = expansion.Nonzero(m.Coef)
	i.Text = fmt.Sprintf("%s gamma=%.4g, %d random features", m.Feats.Kind(), m.Feats.Gamma(), len(m.Coef))
	switch {
	case m.Choice == Supervised && m.Cluster > 0:
		i.Text += fmt.Sprintf(", learned with the cluster kernel of unlabelled examples, weight %.4g", m.Cluster)
	case m.Choice == Supervised:
		i.Text += ", the supervised twin: unlabelled examples have not proved to help"
	case m.Choice == Semi:
		i.Text += fmt.Sprintf(", semi-supervised with rho=%.4g", m.Rho)
	}
	return i
}

func (m *Model) fields(f *state.Fields) {
	version := uint64(rff.Version)
	empty := m.Feats == nil
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
		seed, gamma, block = m.Feats.Seed(), m.Feats.Gamma(), m.Feats.Block()
		laplace = m.Feats.Kind() == rff.Laplacian
	}
	f.Uint64("seed", &seed)
	f.Bool("laplacian", &laplace)
	f.Float64("gamma", &gamma)
	f.Int("block", &block)
	f.Int("dim", &m.Dim)
	f.Bool("fresh", &m.Fresh)
	f.Uint64("next", &m.Next)
	f.Float64("scale", &m.Scale)
	f.Float64("offset", &m.Offset)
	f.Float64("rho", &m.Rho)
	f.Float64("cluster", &m.Cluster)
	c := uint64(m.Choice)
	f.Uint64("choice", &c)
	if f.Decoding() {
		m.packed = f.Next("coef32")
	}
	if m.packed {
		m.packedCoef(f)
	} else {
		f.Float64s("coef", &m.Coef)
	}
	if !f.Decoding() || f.Err() != nil {
		return
	}
	m.Choice = Choice(c)
	if laplace {
		kind = string(rff.Laplacian)
	}
	feats, err := rff.New(rff.Spectrum(kind), gamma, block, seed, Cache)
	if err != nil {
		f.Fail("gamma", err)
		return
	}
	m.Feats = feats
	switch {
	case len(m.Coef) == 0 || len(m.Coef)%block != 0:
		f.Fail("coef", fmt.Errorf("%d coefficients in blocks of %d", len(m.Coef), block))
	case m.Fresh && m.Next < uint64(len(m.Coef)/block):
		f.Fail("next", fmt.Errorf("%d coefficients of %d blocks", len(m.Coef), m.Next))
	case m.Choice > Semi || m.Dim < 0:
		f.Fail("choice", errors.New("out of range"))
	}
}

func (m *Model) packedCoef(f *state.Fields) {
	coef := make([]float32, len(m.Coef))
	for i, v := range m.Coef {
		coef[i] = float32(v)
	}
	f.Float32s("coef32", &coef)
	if f.Decoding() {
		m.Coef = make([]float64, len(coef))
		for i, v := range coef {
			m.Coef[i] = float64(v)
		}
	}
}

// Pack returns the form for publishing, with coefficients rounded to float32. It returns
// m itself if a coefficient is out of range.
func (m *Model) Pack() algos.Model {
	c := &Model{Feats: m.Feats, Dim: m.Dim, Fresh: m.Fresh, Next: m.Next, Scale: m.Scale, Offset: m.Offset, Rho: m.Rho, Cluster: m.Cluster, Choice: m.Choice, packed: true}
	c.Coef = make([]float64, len(m.Coef))
	for i, v := range m.Coef {
		if a := math.Abs(v); v != 0 && !(a > 1e-30 && a < math.MaxFloat32) {
			return m
		}
		c.Coef[i] = float64(float32(v))
	}
	return c
}

// AppendBinary appends the encoded model.
func (m *Model) AppendBinary(dst []byte) ([]byte, error) { return state.Append(dst, m.fields) }

// Decode decodes the output of AppendBinary.
func Decode(data []byte) (algos.Model, error) {
	m := &Model{}
	if err := state.Decode(data, m.fields); err != nil {
		return nil, err
	}
	return m, nil
}
