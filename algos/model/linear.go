package model

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/stream"
)

// Linear is f(x) = bias + Σ_j w_j x_j. Features beyond the weights are ignored.
type Linear struct {
	w    []float64
	bias float64
}

var _ algos.Model = (*Linear)(nil)

// NewLinear returns a model with one weight per feature. It shares memory with w, so
// changes of the weights change the model.
func NewLinear(w []float64, bias float64) *Linear { return &Linear{w, bias} }

// Weights returns the weights; they must not be changed.
func (m *Linear) Weights() []float64 { return m.w }

// Bias returns the constant term.
func (m *Linear) Bias() float64 { return m.bias }

// Decision returns f(x).
func (m *Linear) Decision(x stream.Vec) float64 { return m.bias + linear.Dot(m.w, x) }

// Decisions sets dst[i] = f(xs[i]).
func (m *Linear) Decisions(dst []float64, xs []stream.Vec) {
	for i, x := range xs {
		dst[i] = m.bias + linear.Dot(m.w, x)
	}
}

// Info describes the model.
func (m *Linear) Info() algos.Info {
	n := expansion.Nonzero(m.w)
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

// Largest returns the n nonzero weights of largest magnitude, largest first, ties
// by index.
func (m *Linear) Largest(n int) []Weight {
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
// in little-endian order. In the dense form each weight has a fixed place, so an
// update that changes few weights changes few bytes, and its delta is small.
const (
	linearMagic  = "lin1"
	linearHeader = 24
	formDense    = 0
	formSparse   = 1
	// Models with fewer than sparseDim weights, or with more than one in sparseShare
	// nonzero, are stored dense: fixed places are worth more than the bytes saved.
	sparseDim   = 4096
	sparseShare = 16
)

// AppendBinary appends the encoded model.
func (m *Linear) AppendBinary(dst []byte) ([]byte, error) {
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
	dst = append(dst, linearMagic...)
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

var errWeights = errors.New("length does not match the number of weights")

// DecodeLinear decodes the output of Linear.AppendBinary; it is a decoder for an
// algos.Spec. It returns an error for any other input and for weights that are not
// finite. It allocates at most 64 times the length of data.
func DecodeLinear(data []byte) (algos.Model, error) {
	m, err := decodeLinear(data)
	if err != nil {
		return nil, fmt.Errorf("linear model: %w", err)
	}
	return m, nil
}

func decodeLinear(data []byte) (*Linear, error) {
	if len(data) < linearHeader || string(data[:4]) != linearMagic {
		return nil, errors.New("no header")
	}
	form := binary.LittleEndian.Uint32(data[4:])
	claimed := binary.LittleEndian.Uint64(data[8:])
	m := &Linear{bias: math.Float64frombits(binary.LittleEndian.Uint64(data[16:]))}
	if m.bias-m.bias != 0 {
		return nil, fmt.Errorf("bias %g", m.bias)
	}
	body := data[linearHeader:]
	// A weight takes at least one bit, and features are indexed by int32.
	if claimed > 8*uint64(len(body)) || claimed > 1<<31 {
		return nil, errWeights
	}
	n := int(claimed)
	var mask []byte
	switch form {
	case formDense:
		if len(body) != 8*n {
			return nil, errWeights
		}
	case formSparse:
		words := (n + 63) / 64
		if len(body) < 8*words {
			return nil, errWeights
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
			return nil, errWeights
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
