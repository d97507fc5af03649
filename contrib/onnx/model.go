package onnx

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/internal/plain"
	"github.com/streamsvm/streamsvm/internal/prep"
)

// space maps features to the columns of a tensor.
type space struct {
	n  int           // columns
	at map[int32]int // of features; nil: feature j is in column j
}

// column returns the column of feature j; false if no vector has that feature.
func (s *space) column(j int) (int, bool) {
	if s.at == nil {
		return j, j < s.n
	}
	k, ok := s.at[int32(j)]
	return k, ok
}

// slot returns the slot out of n, and the sign, to which feature j is hashed.
func slot(j, n int) (int32, float64) {
	var key [4]byte
	binary.LittleEndian.PutUint32(key[:], uint32(j))
	h := xxhash.Sum64(key[:])
	return int32(h << 1 >> 1 % uint64(n)), 1 - 2*float64(h>>63)
}

// listed scores linear models with very many features: a row lists its features,
// [N,K] numbers of features and [N,K] values.
func (c *converter) listed(p *prep.Exported, m any, n int) (f ref, k int, err error) {
	heads, err := weights(m)
	if err != nil {
		return "", 0, err
	}
	if heads == nil || p.Hash > 0 || p.Fill || p.AsinhSize != nil {
		return "", 0, refuse("vectors have %d features, and only a linear model without hashed, shifted or transformed features can have more than %d", n, maxDense)
	}
	k = len(heads)
	if err := c.room("the weights", n+1, k); err != nil {
		return "", 0, err
	}
	index := c.input(Value{Name: "index", Type: "int64", Shape: []int64{-1}})
	x := c.round(c.input(Value{Name: "value", Type: "double", Shape: []int64{-1}}))
	c.refused = c.op("IsNaN", c.sum(c.op("Mul", x, c.scalar(0))))
	factor := make([]float64, n+1)
	for i, j := range p.Index {
		if int(j) < n {
			factor[j] = p.Factor[i]
		}
	}
	switch p.Scale {
	case prep.None, prep.Unit, prep.Common:
		x, _, err = c.preprocess(p, x, space{})
	default:
		by := c.op("Gather", c.tensor(factor, n+1), index)
		y := c.clip(c.op("Mul", x, by), p.Clip[0], p.Clip[1])
		x = c.round(c.op("Where", c.op("Equal", by, c.scalar(0)), c.clip(x, -1, 1), y))
	}
	if err != nil {
		return "", 0, err
	}
	// The last row, of the padding, is 0.
	w, bias := make([]float64, (n+1)*k), make([]float64, k)
	for i, h := range heads {
		bias[i] = h.Bias
		h.Weights.each(func(j int, v float64) {
			if j < n {
				w[j*k+i] = v
			}
		})
	}
	products := c.op("Mul", c.op("Gather", c.tensor(w, n+1, k), index), c.op("Unsqueeze", x, c.ints(2))) // [N,K,k]
	sums := c.node("", "ReduceSum", []attr{{"keepdims", 0}}, products, c.ints(1))
	return c.op("Add", sums, c.tensor(bias, k)), k, nil
}

// weights returns the heads of a linear model; nil if it is not linear.
func weights(m any) ([]*linearForm, error) {
	switch m := m.(type) {
	case *linearForm:
		return []*linearForm{m}, nil
	case *kernelForm:
		if m.Kernel.Name == "linear" {
			return []*linearForm{m.collapsed()}, nil
		}
	case *classesForm:
		var all []*linearForm
		for _, data := range m.Parts {
			part, err := form(data)
			if err != nil {
				return nil, err
			}
			heads, err := weights(part)
			if len(heads) != 1 || err != nil {
				return nil, err
			}
			all = append(all, heads...)
		}
		return all, nil
	}
	return nil, nil
}

// preprocess returns x, [N,s.n], hashed and scaled, and its new space.
func (c *converter) preprocess(p *prep.Exported, x ref, s space) (ref, space, error) {
	if p.Hash > 0 {
		x, s = c.hash(p, x, s)
	}
	switch p.Scale {
	case prep.None:
		return x, s, nil
	case prep.Unit:
		return c.round(c.clip(c.unitLength(x), p.Clip[0], p.Clip[1])), s, nil
	case prep.Common:
		x = c.op("Mul", x, c.scalar(p.Common))
		return c.round(c.clip(x, p.Clip[0], p.Clip[1])), s, nil
	}
	shift, factor := make([]float64, s.n), make([]float64, s.n)
	center, size := make([]float64, s.n), make([]float64, s.n)
	for k, j := range p.Index {
		at, ok := s.column(int(j))
		if !ok && p.Fill {
			return "", s, fmt.Errorf("feature %d is scaled, and no vector has it", j)
		}
		if ok {
			shift[at], factor[at] = p.Shift[k], p.Factor[k]
		}
		if ok && p.AsinhSize != nil {
			center[at], size[at] = p.AsinhCenter[k], p.AsinhSize[k]
		}
	}
	if p.AsinhSize != nil {
		x = c.asinh(x, center, size)
	}
	d := c.op("Sub", x, c.tensor(shift, s.n))
	y := c.clip(c.op("Mul", d, c.tensor(factor, s.n)), p.Clip[0], p.Clip[1])
	if slices.Contains(factor, 0) && !p.OnlyListed {
		known := make([]bool, s.n)
		for k, f := range factor {
			known[k] = f != 0
		}
		y = c.op("Where", c.tensor(known, s.n), y, c.clip(d, -1, 1))
	}
	if y = c.round(y); p.UnitLength {
		y = c.round(c.unitLength(y))
	}
	return y, s, nil
}

// asinh returns asinh((x − center)/size) of the features whose size is not 0, and x of others.
// Some runtimes have the operator Asinh in 32 bits only.
func (c *converter) asinh(x ref, center, size []float64) ref {
	mapped, by := make([]bool, len(size)), make([]float64, len(size))
	for k, s := range size {
		if by[k] = 1; s != 0 {
			mapped[k], by[k] = true, s
		}
	}
	u := c.op("Div", c.op("Sub", x, c.tensor(center, len(size))), c.tensor(by, len(size)))
	a := c.op("Abs", u)
	root := c.op("Sqrt", c.op("Add", c.op("Mul", a, a), c.scalar(1)))
	y := c.op("Mul", c.op("Sign", u), c.op("Log", c.op("Add", a, root)))
	return c.op("Where", c.tensor(mapped, len(size)), y, x)
}

// unitLength returns x scaled to length 1, and 0 if x is 0.
func (c *converter) unitLength(x ref) ref {
	norm := c.op("Sqrt", c.sum(c.op("Mul", x, x)))
	return c.op("Div", x, c.op("Where", c.op("Equal", norm, c.scalar(0)), c.scalar(1), norm))
}

// hash returns x in slots: in all slots if they are few, as scales may shift them,
// otherwise in the slots that x reaches.
func (c *converter) hash(p *prep.Exported, x ref, s space) (ref, space) {
	slots, signs := make([]int64, s.n), make([]float64, s.n)
	to := space{n: p.Hash}
	if !p.Fill && p.Hash > prep.DenseLimit {
		to = space{at: map[int32]int{}}
	}
	for j := range s.n {
		k, sign := slot(j, p.Hash)
		if to.at != nil {
			if _, ok := to.at[k]; !ok {
				to.at[k] = to.n
				to.n++
			}
			k = int32(to.at[k])
		}
		slots[j], signs[j] = int64(k), sign
	}
	rows := c.op("Gather", c.op("Shape", x), c.ints(0))
	empty := c.op("Expand", c.scalar(0), c.concat(0, rows, c.ints(int64(to.n))))
	index := c.op("Expand", c.tensor(slots, 1, s.n), c.op("Shape", x))
	sums := c.node("", "ScatterElements", []attr{{"axis", 1}, {"reduction", "add"}}, empty, index, c.op("Mul", x, c.tensor(signs, s.n)))
	return c.round(c.clip(sums, -math.MaxFloat32, math.MaxFloat32)), to
}

// score returns the decisions of a model for x, [N,s.n]: [N,k], with k > 1 the scores
// of k classes.
func (c *converter) score(m any, x ref, s space) (f ref, k int, err error) {
	switch m := m.(type) {
	case *classesForm:
		var fs []ref
		for _, data := range m.Parts {
			part, err := form(data)
			if err != nil {
				return "", 0, err
			}
			if _, ok := part.(*classesForm); ok {
				return "", 0, fmt.Errorf("classes of classes")
			}
			f, _, err := c.score(part, x, s)
			if err != nil {
				return "", 0, err
			}
			fs = append(fs, f)
		}
		return c.concat(1, fs...), len(fs), nil
	case *linearForm:
		f, err = c.linear(m, x, s)
	case *kernelForm:
		f, err = c.kernel(m, x, s)
	case *featuresForm:
		f, err = c.waves(m, x, s)
	case *splinesForm:
		f, err = c.splines(m, x, s)
	case *neighboursForm:
		f, err = c.neighbours(m, x, s)
	case *expertsForm:
		f, err = c.experts(m, x, s)
	default:
		err = fmt.Errorf("a model of type %T", m)
	}
	return f, 1, err
}

func (c *converter) linear(m *linearForm, x ref, s space) (ref, error) {
	return c.op("Add", c.product(&m.Weights, x, s), c.scalar(m.Bias)), nil
}

// product returns ⟨weights, x⟩.
func (c *converter) product(weights *vector[float64], x ref, s space) ref {
	w := make([]float64, s.n)
	weights.each(func(j int, v float64) {
		if at, ok := s.column(j); ok {
			w[at] = v
		}
	})
	return c.op("MatMul", x, c.tensor(w, s.n, 1))
}

// room refuses tensors that would be too large, before they are made.
func (c *converter) room(what string, rows, cols int) error {
	return plain.Options{Numbers: c.o.MaxNumbers}.Check(what, rows, cols)
}

// collapsed returns the expansion of a linear kernel as a single weight vector.
func (m *kernelForm) collapsed() *linearForm {
	out := &linearForm{Bias: m.constant()}
	w := map[int]float64{}
	for i := range m.Points {
		m.Points[i].each(func(j int, v float32) { w[j] += m.Coef[i] * float64(v) })
	}
	out.Weights.Index = []int32{}
	for j, v := range w {
		out.Weights.Index = append(out.Weights.Index, int32(j))
		out.Weights.Value = append(out.Weights.Value, v)
	}
	return out
}

// constant returns the part of the decision that does not depend on x.
func (m *kernelForm) constant() float64 {
	f := m.Offset
	for _, a := range m.Coef {
		f += a * float64(m.Bias)
	}
	return f
}

func (c *converter) kernel(m *kernelForm, x ref, s space) (ref, error) {
	if len(m.Coef) != len(m.Points) {
		return "", fmt.Errorf("%d coefficients of %d points", len(m.Coef), len(m.Points))
	}
	n := len(m.Points)
	if m.Kernel.Name == "linear" || n == 0 {
		return c.linear(m.collapsed(), x, s)
	}
	if err := c.room("the support vectors, none left out,", n, s.n); err != nil {
		return "", err
	}
	laplacian := m.Kernel.Name == "laplacian"
	points := make([]float32, n*s.n) // [n,s.n] of the Laplacian kernel, else [s.n,n]
	squares := make([]float64, n)
	beyond := make([]float64, n) // ‖·‖₁ of the part that no vector has
	for i := range m.Points {
		m.Points[i].each(func(j int, v float32) {
			squares[i] += float64(v) * float64(v)
			switch at, ok := s.column(j); {
			case !ok:
				beyond[i] += math.Abs(float64(v))
			case laplacian:
				points[i*s.n+at] = v
			default:
				points[at*n+i] = v
			}
		})
	}
	gamma := float64(m.Kernel.Gamma)
	var k ref // [N,n]
	switch m.Kernel.Name {
	case "rbf":
		dot := c.op("MatMul", x, c.wide(points, s.n, n))
		square := c.op("Add", c.sum(c.op("Mul", x, x)), c.tensor(squares, n))
		distance := c.op("Max", c.op("Sub", square, c.op("Mul", dot, c.scalar(2))), c.scalar(0))
		k = c.op("Exp", c.op("Mul", distance, c.scalar(-gamma)))
	case "polynomial":
		dot := c.op("MatMul", x, c.wide(points, s.n, n))
		base := c.op("Add", c.op("Mul", dot, c.scalar(gamma)), c.scalar(float64(m.Kernel.Coef0)))
		k = c.op("Pow", base, c.scalar(float64(m.Kernel.Degree)))
	case "laplacian":
		var some []ref
		rows, part := c.op("Unsqueeze", x, c.ints(1)), max(1, maxDifferences/s.n)
		for p := range slices.Chunk(points, part*s.n) {
			differences := c.op("Sub", rows, c.wide(p, len(p)/s.n, s.n)) // [N,part,s.n]
			some = append(some, c.node("", "ReduceSum", []attr{{"keepdims", 0}}, c.op("Abs", differences), c.ints(2)))
		}
		distance := c.concat(1, some...)
		if slices.ContainsFunc(beyond, func(v float64) bool { return v != 0 }) {
			distance = c.op("Add", distance, c.tensor(beyond, n))
		}
		k = c.op("Exp", c.op("Mul", distance, c.scalar(-gamma)))
	default:
		return "", refuse("the kernel %q is not known", m.Kernel.Name)
	}
	return c.op("Add", c.op("MatMul", k, c.tensor(m.Coef, n, 1)), c.scalar(m.constant())), nil
}

// waves is a model of random features.
func (c *converter) waves(m *featuresForm, x ref, s space) (ref, error) {
	n := len(m.Coef)
	if len(m.Frequencies) != n || len(m.Phases) != n {
		return "", fmt.Errorf("%d coefficients, %d frequencies and %d phases", n, len(m.Frequencies), len(m.Phases))
	}
	f := c.op("Add", c.product(&m.Weights, x, s), c.scalar(m.Offset))
	if n == 0 {
		return f, nil
	}
	if s.at == nil && m.Features < s.n {
		return "", refuse("it has random features of %d features, and vectors have %d", m.Features, s.n)
	}
	if err := c.room("the frequencies of random features", n, s.n); err != nil {
		return "", err
	}
	freq, coef := make([]float32, s.n*n), make([]float64, n)
	for i := range m.Frequencies {
		coef[i] = m.Scale * m.Coef[i]
		m.Frequencies[i].each(func(j int, v float32) {
			if at, ok := s.column(j); ok {
				freq[at*n+i] = v
			}
		})
	}
	turns := c.op("Add", c.op("MatMul", x, c.wide(freq, s.n, n)), c.wide(m.Phases, n))
	turns = c.op("Sub", turns, c.op("Floor", turns))
	waves := c.op("Cos", c.op("Mul", turns, c.scalar(2*math.Pi)))
	return c.op("Add", f, c.op("MatMul", waves, c.tensor(coef, n, 1))), nil
}

// neighbours is a vote of nearest neighbours.
func (c *converter) neighbours(m *neighboursForm, x ref, s space) (ref, error) {
	n := len(m.Points)
	if m.Nearest < 1 || n < m.Nearest || len(m.Labels) != n {
		return "", fmt.Errorf("%d nearest of %d points with %d labels", m.Nearest, n, len(m.Labels))
	}
	if err := c.room("the points of nearest neighbours, none left out,", n, s.n); err != nil {
		return "", err
	}
	points := make([]float32, n*s.n)
	squares := make([]float64, n)
	beyond := make([]float64, n) // ‖·‖² of the part that no vector has
	positive := make([]float64, n)
	for i := range m.Points {
		m.Points[i].each(func(j int, v float32) {
			square := float64(v) * float64(v)
			squares[i] += square
			if at, ok := s.column(j); ok {
				points[i*s.n+at] = v
			} else {
				beyond[i] += square
			}
		})
		if m.Labels[i] > 0 {
			positive[i] = 1
		}
	}
	all := c.wide(points, n, s.n)
	dot := c.op("MatMul", x, c.node("", "Transpose", []attr{{"perm", []int64{1, 0}}}, all))
	distance := c.op("Sub", c.tensor(squares, n), c.op("Mul", dot, c.scalar(2))) // less ‖x‖²
	// In 32 bits, so that equal points are at the same distance, whatever order a
	// runtime adds in.
	near := c.smallest(c.cast(c.op("Add", distance, c.sum(c.op("Mul", x, x))), typeFloat), m.Nearest) // [N,k]
	// Once more without cancellation.
	apart := c.op("Sub", c.op("Gather", all, near), c.op("Unsqueeze", x, c.ints(1))) // [N,k,s.n]
	square := c.node("", "ReduceSum", []attr{{"keepdims", 0}}, c.op("Mul", apart, apart), c.ints(2))
	d := c.op("Sqrt", c.op("Add", square, c.op("Gather", c.tensor(beyond, n), near)))
	median := c.node("", "Gather", []attr{{"axis", 1}}, d, c.ints(int64(m.Nearest/2)))
	one := c.scalar(1)
	w := c.op("Div", one, c.op("Add", c.op("Add", d, c.op("Div", median, c.scalar(10))), c.scalar(1e-9)))
	if m.Mean {
		positive = m.Labels
	}
	share := c.op("Div", c.sum(c.op("Mul", w, c.op("Gather", c.tensor(positive, n), near))), c.sum(w))
	if m.Mean {
		return share, nil
	}
	k, half := c.scalar(float64(m.Nearest)), c.scalar(.5)
	odds := c.op("Div", c.op("Add", c.op("Mul", k, share), half), c.op("Add", c.op("Mul", k, c.op("Sub", one, share)), half))
	return c.op("Log", odds), nil
}

// unit returns the scores f in units of their usual size, at most most.
func (t *termForm) unit(c *converter, f ref, most float64) ref {
	if t.Square == 0 {
		return c.op("Sign", f)
	}
	return c.clip(c.op("Div", f, c.scalar(math.Sqrt(t.Square))), -most, most)
}

// logOdds returns the log odds of +1, given the scores.
func (t *termForm) logOdds(c *converter, f ref) ref {
	u := t.unit(c, f, 4)
	inner := c.clip(u, -.3, .3)
	sum := c.op("Add", c.op("Mul", inner, c.scalar(t.Slope)), c.op("Mul", c.op("Sub", u, inner), c.scalar(t.Outer)))
	return c.clip(c.op("Add", sum, c.scalar(t.Offset)), -6, 6)
}

// experts is an ensemble, an average or a mixture.
func (c *converter) experts(m *expertsForm, x ref, s space) (ref, error) {
	var parts, shared []ref
	var shares float64
	limited := func(f ref) ref {
		if m.Low == nil || m.High == nil {
			return f
		}
		return c.clip(f, *m.Low, *m.High)
	}
	for i := range m.Experts {
		e := &m.Experts[i]
		p, err := scaling(e.Preprocessing)
		if err != nil {
			return "", err
		}
		y, to, err := c.preprocess(p, x, s)
		if err != nil {
			return "", err
		}
		part, err := form(e.Model)
		if err != nil {
			return "", err
		}
		f, _, err := c.score(part, y, to)
		if err != nil {
			return "", err
		}
		one := len(m.Experts) == 1 && m.Kind == "mixture"
		switch {
		case m.Kind == "ensemble":
			for _, t := range e.Terms {
				odds := t.logOdds(c, f)
				parts = append(parts, c.op("Mul", odds, c.scalar(t.Weight)))
				if t.Share > 0 {
					shares += t.Share
					shared = append(shared, c.op("Mul", c.sigmoid(odds), c.scalar(t.Share)))
				}
			}
		case m.Kind == "average":
			parts = append(parts, c.op("Mul", limited(f), c.scalar(e.Weight)))
		case one && e.Square != 0:
			return c.op("Mul", f, c.scalar(e.Slope/math.Sqrt(e.Square))), nil
		case one:
			return c.op("Mul", f, c.scalar(e.Slope)), nil
		default:
			probability := c.clip(c.sigmoid(c.op("Mul", e.unit(c, f, 3), c.scalar(e.Slope))), .02, .98)
			parts = append(parts, c.op("Mul", c.op("Sub", probability, c.scalar(.5)), c.scalar(2*e.Weight)))
		}
	}
	// A constant for each row, so that there is a sum if there are no experts.
	f := c.op("Add", c.sum(c.op("Mul", x, c.scalar(0))), c.scalar(m.Bias))
	f = c.total(f, parts)
	one := c.scalar(1)
	switch m.Kind {
	case "ensemble":
		if m.Mixed > 0 && shares > 0 {
			p := c.op("Div", c.total(shared[0], shared[1:]), c.scalar(shares))
			f = c.op("Add", f, c.op("Mul", c.op("Log", c.op("Div", p, c.op("Sub", one, p))), c.scalar(m.Mixed)))
		}
		f = c.clip(f, -8, 8)
		if len(m.Caps) == 0 {
			return f, nil
		}
		center := c.scalar(m.Center)
		f = c.op("Sub", f, center)
		var capped []ref
		for _, p := range m.Caps {
			g := f
			if p.At > 0 {
				g = c.op("Mul", c.op("Tanh", c.op("Div", f, c.scalar(p.At))), c.scalar(p.At))
			}
			capped = append(capped, c.op("Mul", g, c.scalar(p.Weight)))
		}
		f = c.total(center, capped)
		return f, nil
	case "average":
		return limited(f), nil
	}
	return c.op("Log", c.op("Div", c.op("Add", one, f), c.op("Sub", one, f))), nil
}

// total returns f and the parts, added up.
func (c *converter) total(f ref, parts []ref) ref {
	for _, part := range parts {
		f = c.op("Add", f, part)
	}
	return f
}
