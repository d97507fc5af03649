package adaptive

import (
	"fmt"
	"slices"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/linear"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/internal/rffmodel"
	"github.com/streamsvm/streamsvm/stream"
)

// function is an expert's learned function.
type function interface {
	// scores writes the scores of the batch to dst.
	scores(dst []float64, b *inputBatch)
	info(i *algos.Info)
}

// inputBatch holds examples in the forms that functions take; forms that no function takes are
// nil.
type inputBatch struct {
	xs, zs, rows, phis, hats []stream.Vec
	votes                    [][2]vote // of nearest neighbours, short and long window
}

// kernelFunction is a kernel expansion, or a function of random features, with its own
// scaling.
type kernelFunction struct {
	transform *prep.Transform
	model     algos.Model
}

func (k *kernelFunction) scores(dst []float64, b *inputBatch) {
	zs := make([]stream.Vec, len(b.xs))
	for i, x := range b.xs {
		zs[i] = k.transform.Apply(x)
	}
	k.model.Decisions(dst, zs)
}

func (k *kernelFunction) info(i *algos.Info) {
	o := k.model.Info()
	i.Dim = max(i.Dim, o.Dim)
	i.Support += max(0, o.Support)
	i.Nonzero += o.Nonzero
}

// linearFunction is b + ⟨w, z⟩ with z in the given form.
type linearFunction struct {
	form form
	w    []float64
	b    float64
}

func (l *linearFunction) scores(dst []float64, b *inputBatch) {
	zs := b.zs
	switch l.form {
	case onRow:
		zs = b.rows
	case onPhi:
		zs = b.phis
	case onSplines:
		zs = b.hats
	}
	for i, z := range zs {
		dst[i] = l.b + linear.Dot(l.w, z)
	}
}

func (l *linearFunction) info(i *algos.Info) { i.Nonzero += expansion.Nonzero(l.w) }

// nearFunction is the vote of the nearest neighbours in one of the two windows.
type nearFunction struct {
	*neighbours
	second bool
}

func (n nearFunction) scores(dst []float64, b *inputBatch) {
	window := 0
	if n.second {
		window = 1
	}
	for i := range b.votes {
		dst[i] = n.score(&b.votes[i][window]).f
	}
}

func (n nearFunction) info(i *algos.Info) { i.Support += len(n.y) }

// constant is a function with the same score for all examples.
type constant float64

func (c constant) scores(dst []float64, b *inputBatch) {
	for i := range dst {
		dst[i] = float64(c)
	}
}

func (constant) info(*algos.Info) {}

// packed returns the function with weights of 32 bits, as far as these can hold them.
func (l *linearFunction) packed() *linearFunction {
	c := &linearFunction{l.form, slices.Clone(l.w), l.b}
	for j, v := range l.w {
		if r := float64(float32(v)); r-r == 0 && (r != 0 || v == 0) {
			c.w[j] = r
		}
	}
	return c
}

// fields describes the function; decode reads its model.
func (k *kernelFunction) fields(f *state.Fields, decode func([]byte) (algos.Model, error)) {
	f.Group("transform", k.transform.Fields)
	f.Nested("model", func(dst []byte) ([]byte, error) { return k.model.AppendBinary(dst) }, func(data []byte) (err error) {
		k.model, err = decode(data)
		return err
	})
}

// Kinds of functions in encoded models.
const (
	kindExpansion = "expansion"
	kindFeatures  = "features"
	kindLinear    = "linear"
	kindNear      = "neighbours"
	kindConstant  = "constant"
)

func (m *ensemble) memberFields(f *state.Fields, e *member) {
	kind, form := "", 0
	var w []float64
	var b float64
	switch x := e.function.(type) {
	case *kernelFunction:
		kind = kindExpansion
		if _, ok := x.model.(*rffmodel.Model); ok {
			kind = kindFeatures
		}
	case *linearFunction:
		kind, form, w, b = kindLinear, int(x.form), x.w, x.b
	case nearFunction:
		kind = kindNear
		if x.second {
			form = 1
		}
	case constant:
		kind, b = kindConstant, float64(x)
	}
	f.String("name", &e.name)
	f.String("kind", &kind)
	switch {
	case f.Err() != nil:
	case kind == kindExpansion || kind == kindFeatures:
		k, _ := e.function.(*kernelFunction)
		if k == nil {
			k = &kernelFunction{transform: new(prep.Transform)}
			e.function = k
		}
		decode := expansion.Decode
		if kind == kindFeatures {
			decode = rffmodel.Decode
		}
		k.fields(f, decode)
	case kind == kindLinear:
		f.Int("form", &form)
		f.Float64s("w", &w)
		f.Float64("b", &b)
		if f.Decoding() {
			e.function = &linearFunction{formAs(f, form), w, b}
			f.Fail("w", linear.Finite(w, []float64{b}))
		}
	case kind == kindNear:
		f.Int("window", &form)
		if f.Decoding() {
			e.function = nearFunction{m.near, form == 1}
		}
	case kind == kindConstant:
		f.Float64("value", &b)
		if f.Decoding() {
			e.function = constant(b)
			f.Fail("value", linear.Finite([]float64{b}))
		}
	default:
		f.Fail("kind", fmt.Errorf("%q", kind))
	}
}

func formAs(f *state.Fields, n int) form {
	if n < int(onZ) || n > int(onSplines) {
		f.Fail("form", fmt.Errorf("%d", n))
		return onZ
	}
	return form(n)
}
