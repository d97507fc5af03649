// Package rff computes random Fourier features of points, which make a linear model
// approximate a kernel model.
package rff

import (
	"fmt"
	"math"
	"sync"

	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// Spectrum names the kernel that determines the distribution of frequencies.
type Spectrum string

const (
	Gaussian  Spectrum = "rbf"       // exp(−γ‖x−z‖²): normal with variance 2γ
	Laplacian Spectrum = "laplacian" // exp(−γ‖x−z‖₁): Cauchy with scale γ
)

// Version identifies the generator. It must change when the same keys give different
// features. It is stored in checkpoints and models.
const Version = 1

const (
	// denseDim is the number of coordinates up to which points are multiplied by
	// packed frequencies. Beyond it, frequencies are drawn by coordinate.
	denseDim = 1024
	// Zeros are skipped in batches of points within denseDim that have at least
	// skipDim coordinates, at most skipPercent of them nonzero. This is faster, with
	// the same bits.
	skipDim     = 32
	skipPercent = 40
)

// Features computes random Fourier features (Rahimi and Recht, "Random features for
// large-scale kernel machines", NIPS 2007) in blocks of Block:
//
//	φ(x) = cos(2π(⟨ω,x⟩ + b)),   K(x,z) = 2·E[φ(x)φ(z)]
//
// with ω from the kernel's spectrum divided by 2π and b uniform on [0,1). A feature is
// a function of (seed, block index, position in the block), and its frequency at
// coordinate j does not depend on other coordinates. So features can be drawn in
// any order, at any time and on any CPU, with equal bits. Draws at the first 1,024
// coordinates are cached within the budget, which changes no bit. For points with
// coordinates beyond these, frequencies are drawn for each batch, so that memory does
// not grow with the dimension.
//
// It is safe for concurrent use.
type Features struct {
	kind   Spectrum
	gamma  float64
	block  int
	seed   uint64
	budget int

	scale float32 // factor for standard draws
	pool  sync.Pool

	mu   sync.RWMutex
	held int // bytes cached
	kept map[uint64]*frequencies
}

// frequencies are the cached draws of a block.
type frequencies struct {
	panels *vec.Panels // the first Dim coordinates, at most denseDim
	phase  []float32
}

// New returns features for a kernel with gamma > 0, in blocks of block ≥ 1. budget
// bounds the bytes of cached draws.
func New(kind Spectrum, gamma float64, block int, seed uint64, budget int) (*Features, error) {
	if kind != Gaussian && kind != Laplacian {
		return nil, fmt.Errorf("no random features for kernel %q; there are %s, %s", kind, Gaussian, Laplacian)
	}
	f := &Features{kind: kind, gamma: gamma, block: block, seed: seed, budget: budget, kept: map[uint64]*frequencies{}}
	f.scale = float32(math.Sqrt(2*gamma) / (2 * math.Pi))
	if kind == Laplacian {
		f.scale = float32(gamma / (2 * math.Pi))
	}
	if !(gamma > 0) || f.scale == 0 || f.scale > 1e6 { // sums stay finite for points within 1e18
		return nil, fmt.Errorf("kernel width gamma = %g is out of range", gamma)
	}
	if block < 1 || block > 1<<20 {
		return nil, fmt.Errorf("%d features in a block are outside [1,%d]", block, 1<<20)
	}
	return f, nil
}

// Block returns the number of features in a block.
func (f *Features) Block() int { return f.block }

// Gamma returns the kernel width.
func (f *Features) Gamma() float64 { return f.gamma }

// Kind returns the kernel.
func (f *Features) Kind() Spectrum { return f.kind }

// Seed returns the master seed.
func (f *Features) Seed() uint64 { return f.seed }

// Bytes returns the approximate memory of the cache.
func (f *Features) Bytes() int {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.held
}

// Release drops the cached draws of a block that will probably not be needed again.
func (f *Features) Release(block uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if k := f.kept[block]; k != nil {
		f.held -= k.bytes()
		delete(f.kept, block)
	}
}

func (k *frequencies) bytes() int {
	n := 4 * len(k.phase)
	if k.panels != nil {
		n += panelBytes(k.panels.Len(), k.panels.Dim())
	}
	return n
}

func panelBytes(rows, dim int) int { return 4 * dim * ((rows + vec.Width - 1) / vec.Width * vec.Width) }

// key returns the seed for a block's frequencies or phases: splitmix64's finaliser
// over seed and block, a bijection in each of them.
func (f *Features) key(block, salt uint64) uint64 {
	mix := func(z uint64) uint64 {
		z ^= z >> 30
		z *= 0xbf58476d1ce4e5b9
		z ^= z >> 27
		z *= 0x94d049bb133111eb
		return z ^ z>>31
	}
	return mix(mix(f.seed+0x9e3779b97f4a7c15) + mix(block^salt))
}

const (
	frequencySalt = 0x6672657175656e63
	phaseSalt     = 0x7068617365
)

// draw sets row[i] to the frequency of feature i of the block at coordinate j.
func (f *Features) draw(row []float32, key uint64, j int) {
	// Rows start at the generator's blocks of 32.
	from := uint64(j) * uint64((f.block+31)/32*32)
	if f.kind == Laplacian {
		vec.Cauchys(row, key, from)
	} else {
		vec.Normals(row, key, from)
	}
	for i := range row {
		row[i] *= f.scale
	}
}

// Frequencies sets dst[i], for all Block features of the block, to the frequency of
// feature i at coordinate j ≥ 0, in turns. It does not use the cache.
func (f *Features) Frequencies(dst []float32, block uint64, j int) {
	f.draw(dst[:f.block], f.key(block, frequencySalt), j)
}

// Phases returns the phases b of the block's features, in turns on [0,1).
func (f *Features) Phases(block uint64) []float32 {
	b := make([]float32, f.block)
	z := f.key(block, phaseSalt)
	for i := range b {
		z += 0x9e3779b97f4a7c15
		w := z
		w = (w ^ w>>30) * 0xbf58476d1ce4e5b9
		w = (w ^ w>>27) * 0x94d049bb133111eb
		b[i] = float32((w^w>>31)>>40) / (1 << 24)
	}
	return b
}

// Points is a batch of points, prepared for computing features.
type Points struct {
	n        int
	dim      int       // dimension of the points within denseDim
	x        []float32 // dense rows of these points
	at       []int32   // their positions in the batch
	far      far
	direct   bool // all points are within denseDim
	skip     bool // use nonzeros instead of x
	nonzeros vec.Sparse
}

// Pack prepares the points xs. It reuses the memory of p and may share the memory of xs.
// The features of a point do not depend on the other points.
func (p *Points) Pack(xs []stream.Vec) {
	p.n, p.dim = len(xs), 0
	p.at = p.at[:0]
	p.far.reset()
	for i, x := range xs {
		d := x.Dim()
		if d > denseDim {
			p.far.append(i, x)
			continue
		}
		p.dim = max(p.dim, d)
		p.at = append(p.at, int32(i))
	}
	p.far.sort()
	p.direct = len(p.far.groups) == 0
	if p.skip = p.sparse(xs); p.skip {
		p.nonzeros.Reset()
		for _, i := range p.at {
			p.nonzeros.Append(int(i), xs[i].Idx, xs[i].Val)
		}
		return
	}
	if need := len(p.at) * p.dim; cap(p.x) < need {
		p.x = make([]float32, need)
	} else {
		p.x = p.x[:need]
	}
	for r, i := range p.at {
		xs[i].Dense(p.x[r*p.dim : (r+1)*p.dim])
	}
}

// sparse reports whether to skip zeros.
func (p *Points) sparse(xs []stream.Vec) bool {
	if p.dim < skipDim {
		return false
	}
	room := len(p.at) * p.dim * skipPercent / 100
	for _, i := range p.at {
		x := xs[i]
		room -= len(x.Val)
		if !x.Sparse() {
			for _, v := range x.Val {
				if v == 0 {
					room++
				}
			}
		}
		if room < 0 {
			return false
		}
	}
	return true
}

// Len returns the number of points.
func (p *Points) Len() int { return p.n }

// Work estimates the nanoseconds that one feature of all points takes, for par.Split.
func (p *Points) Work() float64 { return float64(p.n) * (0.5 + float64(p.dim)/25) }

// work is scratch memory for one call of Map.
type work struct {
	x   []float32
	out []float32
	sum []float64
	row []float32
}

// Map sets dst[r*ld+i] to feature i of the block at point r.
func (f *Features) Map(dst []float32, ld int, p *Points, block uint64) {
	w, _ := f.pool.Get().(*work)
	if w == nil {
		w = new(work)
	}
	defer f.pool.Put(w)
	if len(p.at) > 0 {
		f.mapPacked(w, dst, ld, p, block)
	}
	for i := range p.far.groups {
		f.mapFar(w, dst, ld, &p.far, &p.far.groups[i], block)
	}
}

func (f *Features) mapPacked(w *work, dst []float32, ld int, p *Points, block uint64) {
	panels, phase := f.panels(block, p.dim)
	if p.skip {
		vec.CosSparse(dst, ld, &p.nonzeros, panels, phase, 0, f.block)
		return
	}
	x, d := p.x, panels.Dim()
	if d > p.dim { // additional zeros change no sum
		if cap(w.x) < len(p.at)*d {
			w.x = make([]float32, len(p.at)*d)
		}
		x = w.x[:len(p.at)*d]
		for r := range p.at {
			clear(x[r*d+copy(x[r*d:(r+1)*d], p.x[r*p.dim:(r+1)*p.dim]) : (r+1)*d])
		}
	}
	if p.direct {
		vec.Cos(dst, ld, x, len(p.at), panels, phase, 0, f.block)
		return
	}
	if cap(w.out) < f.block {
		w.out = make([]float32, f.block)
	}
	for r, i := range p.at {
		out := w.out[:f.block]
		vec.Cos(out, f.block, x[r*d:(r+1)*d], 1, panels, phase, 0, f.block)
		copy(dst[int(i)*ld:], out)
	}
}

// panels returns the block's frequencies at the first dim coordinates or more.
func (f *Features) panels(block uint64, dim int) (*vec.Panels, []float32) {
	f.mu.RLock()
	k := f.kept[block]
	if k != nil && k.panels != nil && k.panels.Dim() >= dim {
		defer f.mu.RUnlock()
		return k.panels, k.phase
	}
	f.mu.RUnlock()

	f.mu.Lock()
	defer f.mu.Unlock()
	if k = f.kept[block]; k != nil && k.panels != nil && k.panels.Dim() >= dim {
		return k.panels, k.phase
	}
	old := 0
	if k != nil && k.panels != nil {
		old = k.panels.Dim()
	}
	// Grow in steps for open feature spaces, because growing redraws everything.
	dim = max(dim, min(denseDim, old+old/4))
	fresh := &frequencies{panels: f.pack(block, dim)}
	if k != nil {
		fresh.phase = k.phase
	} else {
		fresh.phase = f.Phases(block)
	}
	extra := fresh.bytes()
	if k != nil {
		extra -= k.bytes()
	}
	if f.held+extra <= f.budget {
		f.held += extra
		f.kept[block] = fresh
	}
	return fresh.panels, fresh.phase
}

// pack draws a block's frequencies at the first dim coordinates.
func (f *Features) pack(block uint64, dim int) *vec.Panels {
	key := f.key(block, frequencySalt)
	rows, col := make([]float32, f.block*dim), make([]float32, f.block)
	for j := range dim {
		f.draw(col, key, j)
		for i, v := range col {
			rows[i*dim+j] = v
		}
	}
	p := vec.NewPanels(dim)
	for i := range f.block {
		p.Append(rows[i*dim : (i+1)*dim])
	}
	return p
}

func (f *Features) phaseOf(block uint64) []float32 {
	f.mu.RLock()
	k := f.kept[block]
	f.mu.RUnlock()
	if k != nil {
		return k.phase
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if k = f.kept[block]; k != nil {
		return k.phase
	}
	k = &frequencies{phase: f.Phases(block)}
	if n := k.bytes(); f.held+n <= f.budget {
		f.held += n
		f.kept[block] = k
	}
	return k.phase
}
