// Package linear holds what linear learners share: dot products and updates
// over dense and sparse vectors, and the model f(x) = b + Σ_j w_j x_j.
package linear

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// lanes is the number of partial sums of a dot product: feature j goes to lane
// j mod 32, as in vec.DotMixed, so that a vector has the same product whether
// it is written dense or sparse.
const lanes = 32

var nan = math.Float64frombits(0x7ff8000000000001) // the NaN of package vec

// Dot returns Σ_j w[j]·x_j over the features j < len(w), in float64. Its bits
// depend on the features' values only: not on zeros that x spells out, not on
// the CPU.
func Dot(w []float64, x stream.Vec) float64 {
	if x.Idx == nil {
		n := min(len(w), len(x.Val))
		return vec.DotMixed(x.Val[:n], w[:n])
	}
	var l [lanes]float64
	val := x.Val[:len(x.Idx)]
	for k, j := range x.Idx {
		if int(j) >= len(w) {
			break
		}
		l[uint32(j)%lanes] += float64(float64(val[k]) * w[j])
	}
	a, b := (*[16]float64)(l[:16]), (*[16]float64)(l[16:])
	for i := range a {
		a[i] += b[i]
	}
	for i := range 8 {
		a[i] += a[i+8]
	}
	s := ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))
	if s != s {
		return nan
	}
	return s
}

// Axpy sets w[j] += c·x_j for every feature that x holds, the product rounded
// before it is added. w must be at least x.Dim() long.
func Axpy(c float64, x stream.Vec, w []float64) {
	if x.Idx == nil {
		vec.AxpyMixed(c, x.Val, w)
		return
	}
	val := x.Val[:len(x.Idx)]
	for k, j := range x.Idx {
		v := w[j] + float64(c*float64(val[k]))
		if v != v {
			v = nan
		}
		w[j] = v
	}
}

// Square returns ‖x‖² in float64, equal for dense and sparse forms of x.
func Square(x stream.Vec) float64 {
	var l [lanes]float64
	for k, v := range x.Val {
		j := k
		if x.Idx != nil {
			j = int(x.Idx[k])
		}
		l[j%lanes] += float64(float64(v) * float64(v))
	}
	for w := lanes / 2; w > 0; w /= 2 {
		for i := range w {
			l[i] += l[i+w]
		}
	}
	return l[0]
}

// Grow returns w with at least n elements, the new ones 0. Room grows by
// doubling.
func Grow(w []float64, n int) []float64 {
	if n <= len(w) {
		return w
	}
	return append(w, make([]float64, n-len(w))...)
}

// Model is f(x) = bias + Σ_j w_j x_j. Features beyond the weights count 0.
type Model struct {
	w    []float64
	bias float64
}

var _ algos.Model = (*Model)(nil)

// NewModel returns the model with these weights. It shares w and is valid
// until w changes.
func NewModel(w []float64, bias float64) *Model { return &Model{w, bias} }

// SetBias changes the constant term of a model that is a view of a learner's
// weights.
func (m *Model) SetBias(b float64) { m.bias = b }

// Weights returns the weights; they must not be changed.
func (m *Model) Weights() []float64 { return m.w }

// Bias returns the constant term.
func (m *Model) Bias() float64 { return m.bias }

// Decision returns f(x).
func (m *Model) Decision(x stream.Vec) float64 { return m.bias + Dot(m.w, x) }

// Decisions sets dst[i] = f(xs[i]).
func (m *Model) Decisions(dst []float64, xs []stream.Vec) {
	for i, x := range xs {
		dst[i] = m.bias + Dot(m.w, x)
	}
}

// Info describes the model.
func (m *Model) Info() algos.Info {
	n := 0
	for _, v := range m.w {
		if v != 0 {
			n++
		}
	}
	return algos.Info{
		Kind: algos.Linear, Dim: len(m.w), Support: -1, Nonzero: n,
		Text: fmt.Sprintf("linear, %d of %d weights not 0, bias %.6g", n, len(m.w), m.bias),
	}
}

// Weight is the weight of one feature.
type Weight struct {
	Index int // from 0
	Value float64
}

// Largest returns the n weights of largest magnitude that are not 0, the
// largest first and lower indices before higher ones of equal magnitude.
func (m *Model) Largest(n int) []Weight {
	var all []Weight
	for j, v := range m.w {
		if v != 0 {
			all = append(all, Weight{j, v})
		}
	}
	slices.SortStableFunc(all, func(a, b Weight) int { return cmp.Compare(math.Abs(b.Value), math.Abs(a.Value)) })
	return all[:min(max(n, 0), len(all))]
}

// The encoded form is
//
//	offset  size
//	0       4     "lin1"
//	4       4     form: 0 dense, 1 sparse
//	8       8     number n of weights
//	16      8     bias
//	24            dense: n weights
//	24            sparse: a bit for each weight, lowest first, in ⌈n/64⌉ words,
//	              then the weights whose bit is set
//
// with numbers in little-endian order, so that in the dense form a weight has
// one place and an update that changes few weights changes few bytes.
const (
	magic      = "lin1"
	headerSize = 24
	formDense  = 0
	formSparse = 1
	// Narrower models and those with more than one weight in sparseShare not 0
	// are stored dense: there, stable places are worth more than the bytes.
	sparseDim   = 4096
	sparseShare = 16
)

// AppendBinary appends the encoded model.
func (m *Model) AppendBinary(dst []byte) ([]byte, error) {
	n := len(m.w)
	form, set := formDense, 0
	if n >= sparseDim {
		for _, v := range m.w {
			if math.Float64bits(v) != 0 {
				set++
			}
		}
		if set <= n/sparseShare {
			form = formSparse
		}
	}
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(form))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(n))
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(m.bias))
	if form == formDense {
		dst = slices.Grow(dst, 8*n)
		for _, v := range m.w {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
		}
		return dst, nil
	}
	dst = slices.Grow(dst, 8*((n+63)/64+set))
	for i := 0; i < n; i += 64 {
		var word uint64
		for k, v := range m.w[i:min(i+64, n)] {
			if math.Float64bits(v) != 0 {
				word |= 1 << k
			}
		}
		dst = binary.LittleEndian.AppendUint64(dst, word)
	}
	for _, v := range m.w {
		if b := math.Float64bits(v); b != 0 {
			dst = binary.LittleEndian.AppendUint64(dst, b)
		}
	}
	return dst, nil
}

var errLength = errors.New("length does not match the number of weights")

// Decode reads what AppendBinary wrote and nothing else. The error says what
// is wrong; weights that are not finite are refused. It allocates at most 64
// times the length of data.
func Decode(data []byte) (algos.Model, error) {
	m, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("linear model: %w", err)
	}
	return m, nil
}

func decode(data []byte) (*Model, error) {
	if len(data) < headerSize || string(data[:4]) != magic {
		return nil, errors.New("no header")
	}
	form := binary.LittleEndian.Uint32(data[4:])
	claimed := binary.LittleEndian.Uint64(data[8:])
	m := &Model{bias: math.Float64frombits(binary.LittleEndian.Uint64(data[16:]))}
	if m.bias-m.bias != 0 {
		return nil, fmt.Errorf("bias %g", m.bias)
	}
	body := data[headerSize:]
	// A weight takes at least a bit; an int32 indexes features.
	if claimed > 8*uint64(len(body)) || claimed > 1<<31 {
		return nil, errLength
	}
	n := int(claimed)
	var mask []byte
	switch form {
	case formDense:
		if len(body) != 8*n {
			return nil, errLength
		}
	case formSparse:
		words := (n + 63) / 64
		if len(body) < 8*words {
			return nil, errLength
		}
		mask, body = body[:8*words], body[8*words:]
		set := 0
		for i := 0; i < len(mask); i += 8 {
			set += bits.OnesCount64(binary.LittleEndian.Uint64(mask[i:]))
		}
		if n%64 != 0 && binary.LittleEndian.Uint64(mask[8*words-8:])>>(n%64) != 0 {
			return nil, errors.New("a bit beyond the last weight")
		}
		if len(body) != 8*set {
			return nil, errLength
		}
	default:
		return nil, fmt.Errorf("unknown form %d", form)
	}
	m.w = make([]float64, n)
	for j := range m.w {
		if mask != nil && mask[j/8]>>(j%8)&1 == 0 {
			continue
		}
		v := math.Float64frombits(binary.LittleEndian.Uint64(body))
		if v-v != 0 {
			return nil, fmt.Errorf("weight %d is %g", j, v)
		}
		m.w[j], body = v, body[8:]
	}
	return m, nil
}
