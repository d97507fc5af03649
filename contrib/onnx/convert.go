// Package onnx converts a predictor to an ONNX model, with which other runtimes can score
// records. It starts from the plain form, which docs/formats/plain.md describes. The
// graph maps the fields of an event, or a vector, to label and probability, in 64 bits
// and with standard operators only. docs/onnx.md lists inputs and outputs, and what has
// no ONNX form.
package onnx

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/streamsvm/streamsvm/internal/plain"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/internal/version"
)

const (
	// maxDense limits the features of a dense input.
	maxDense = 1 << 16
	// maxDifferences limits the differences, of points × features, that a Laplacian kernel has in
	// memory for each row. More are taken in parts.
	maxDifferences = 1 << 16
	// maxBytes is the largest message that Protocol Buffers allow.
	maxBytes = math.MaxInt32
)

// Options are the options of Convert.
type Options struct {
	// MaxNumbers limits the numbers in the graph; 0 is no limit.
	MaxNumbers int
}

// Model is an ONNX model.
type Model struct {
	Bytes  []byte // a ModelProto
	Inputs []Value
}

// RefusedError is the reason why a predictor has no ONNX form.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "there is no ONNX form: " + e.Reason }

func refuse(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// Convert converts a predictor whose plain form is doc. The error is a *RefusedError
// if it has no ONNX form, and a *plain.LimitError if the model would be too large.
func Convert(doc []byte, o Options) (*Model, error) {
	var d document
	if err := json.Unmarshal(doc, &d); err != nil {
		return nil, fmt.Errorf("plain form of a model: %w", err)
	}
	if d.Format != "streamsvm-model" || d.Version != 2 {
		return nil, errors.New("not the plain form of a model of a known version")
	}
	if o.MaxNumbers == 0 {
		o.MaxNumbers = math.MaxInt
	}
	c := &converter{graph: newGraph(), o: o, d: &d}
	if err := c.convert(); err != nil {
		return nil, err
	}
	return c.finish()
}

// converter builds the graph of a document.
type converter struct {
	*graph
	o Options
	d *document
	// refused, bool [N,1], marks the rows that have no decision.
	refused ref
}

func (c *converter) convert() error {
	p, err := scaling(c.d.Preprocessing)
	if err != nil {
		return err
	}
	m, err := form(c.d.Model)
	if err != nil {
		return err
	}
	if n := c.features(p, m); !c.d.events() && n > maxDense {
		f, k, err := c.listed(p, m, n)
		if err != nil {
			return err
		}
		return c.answer(f, k)
	}
	x, s, err := c.vector(p, m)
	if err != nil {
		return err
	}
	// 0 times an infinity is NaN.
	c.refused = c.op("IsNaN", c.sum(c.op("Mul", x, c.scalar(0))))
	if x, s, err = c.preprocess(p, x, s); err != nil {
		return err
	}
	f, k, err := c.score(m, x, s)
	if err != nil {
		return err
	}
	return c.answer(f, k)
}

// features returns the number of features of vectors.
func (c *converter) features(p *prep.Exported, m any) int {
	n := c.d.Signature.Features
	if p.Hash > 0 || n > 0 {
		return n
	}
	for _, j := range p.Index {
		n = max(n, int(j)+1)
	}
	return max(n, c.extent(m))
}

// extent returns the number of features for which a model has coefficients.
func (c *converter) extent(m any) int {
	n := 0
	switch m := m.(type) {
	case *linearForm:
		m.Weights.each(func(j int, _ float64) { n = max(n, j+1) })
	case *kernelForm:
		for i := range m.Points {
			m.Points[i].each(func(j int, _ float32) { n = max(n, j+1) })
		}
	case *neighboursForm:
		for i := range m.Points {
			m.Points[i].each(func(j int, _ float32) { n = max(n, j+1) })
		}
	case *featuresForm:
		m.Weights.each(func(j int, _ float64) { n = max(n, j+1) })
		for i := range m.Frequencies {
			m.Frequencies[i].each(func(j int, _ float32) { n = max(n, j+1) })
		}
	case *expertsForm:
		for _, e := range m.Experts {
			if p, err := scaling(e.Preprocessing); err == nil {
				for _, j := range p.Index {
					n = max(n, int(j)+1)
				}
			}
			if part, err := form(e.Model); err == nil {
				n = max(n, c.extent(part))
			}
		}
	case *classesForm:
		for _, data := range m.Parts {
			if part, err := form(data); err == nil {
				n = max(n, c.extent(part))
			}
		}
	}
	return n
}

// vector returns the vectors that the codecs of streamsvm would decode, and their
// space.
func (c *converter) vector(p *prep.Exported, m any) (ref, space, error) {
	if c.d.events() {
		x, n, err := c.events(c.d.Signature.Schema)
		return x, space{n: n}, err
	}
	n := c.features(p, m)
	if n == 0 {
		return "", space{}, refuse("it is not known how many features vectors have")
	}
	x := c.input(Value{Name: "x", Type: "double", Shape: []int64{int64(n)}})
	return c.round(x), space{n: n}, nil
}

// answer adds the outputs. f, [N,k], is the decision between two classes, the
// prediction of a regression, or k scores.
func (c *converter) answer(f ref, k int) error {
	if c.d.Task == "regress" {
		c.output(c.known(f), "value", "double", 1)
		return nil
	}
	want := 2
	if k > 1 {
		want = k
	}
	if len(c.d.Labels) != want {
		return fmt.Errorf("%d labels of %d classes", len(c.d.Labels), want)
	}
	var number ref // of the class, [N,1]
	q := c.probability(f, k)
	switch costs := c.d.Costs; {
	case len(costs) > 0 && len(costs) != want:
		return fmt.Errorf("%d costs of %d classes", len(costs), want)
	case len(costs) > 0 && q != "" && k == 1:
		missed := c.op("Mul", c.op("Sub", c.scalar(1), q), c.scalar(costs[0]))
		number = c.cast(c.op("GreaterOrEqual", c.op("Mul", q, c.scalar(costs[1])), missed), typeInt64)
	case len(costs) > 0 && q != "":
		number = c.argMax(c.op("Mul", q, c.tensor(costs, 1, k)))
	case k == 1:
		number = c.cast(c.op("GreaterOrEqual", f, c.scalar(0)), typeInt64)
	default:
		number = c.argMax(f)
	}
	// Refused rows have an extra label.
	number = c.op("Where", c.refused, c.ints(int64(want)), number)
	labels, typ, err := labelTensor(c.d.Labels)
	if err != nil {
		return err
	}
	c.output(c.op("Gather", c.tensor(labels, want+1), number), "label", typ, 1)
	c.output(c.known(f), "decision", "double", k)
	if q != "" {
		c.output(c.known(q), "probability", "double", k)
	}
	return nil
}

// known returns x with NaN in refused rows.
func (c *converter) known(x ref) ref { return c.op("Where", c.refused, c.scalar(math.NaN()), x) }

// labelTensor returns the labels and an extra one, for rows without a decision, as a
// slice of their type.
func labelTensor(labels []any) (values any, typ string, err error) {
	switch labels[0].(type) {
	case string:
		values, typ, err = all(labels, "", "string")
	case bool:
		values, typ, err = all(labels, false, "bool")
	default:
		values, typ, err = all(labels, math.NaN(), "double")
	}
	return values, typ, err
}

func all[T any](labels []any, none T, typ string) ([]T, string, error) {
	var list []T
	for _, l := range labels {
		v, ok := l.(T)
		if !ok {
			return nil, "", fmt.Errorf("the label %v is not a %s, as others are", l, typ)
		}
		list = append(list, v)
	}
	return append(list, none), typ, nil
}

// probability returns the probability of +1, [N,1], or of each class, [N,k]. It is ""
// if the model has none.
func (c *converter) probability(f ref, k int) ref {
	q := c.d.Probability
	switch {
	case q == nil:
		return ""
	case k > 1:
		top := c.node("", "GatherElements", []attr{{"axis", 1}}, f, c.argMax(f))
		v := c.op("Max", c.op("Div", c.op("Sub", f, top), c.scalar(q.Scale)), c.scalar(-12))
		return c.node("", "Softmax", []attr{{"axis", 1}}, c.op("Mul", v, c.scalar(q.Slope)))
	}
	// The log odds are a piecewise linear function: their value at the first decision
	// plus the increment of each piece.
	z := c.op("Add", c.op("Mul", f, c.scalar(0)), c.scalar(q.LogOdds[0]))
	if n := len(q.Decisions) - 1; n > 0 {
		slopes := make([]float64, n)
		for i := range slopes {
			slopes[i] = (q.LogOdds[i+1] - q.LogOdds[i]) / (q.Decisions[i+1] - q.Decisions[i])
		}
		low, high := c.tensor(q.Decisions[:n], 1, n), c.tensor(q.Decisions[1:], 1, n)
		on := c.op("Sub", c.op("Min", c.op("Max", f, low), high), low)
		z = c.op("Add", c.op("MatMul", on, c.tensor(slopes, n, 1)), c.scalar(q.LogOdds[0]))
	}
	return c.sigmoid(z)
}

func (c *converter) sigmoid(z ref) ref {
	one := c.scalar(1)
	return c.op("Div", one, c.op("Add", one, c.op("Exp", c.op("Neg", z))))
}

// finish returns the model, with metadata about its origin.
func (c *converter) finish() (*Model, error) {
	if c.numbers > c.o.MaxNumbers {
		return nil, &plain.LimitError{What: "the tensors", Numbers: uint64(c.numbers), MaxNumbers: c.o.MaxNumbers}
	}
	name, n := "model", uint64(0)
	metas := []meta{{"learner", c.d.Learner}, {"task", c.d.Task}}
	if c.d.Labels != nil {
		labels, err := json.Marshal(c.d.Labels)
		if err != nil {
			return nil, err
		}
		metas = append(metas, meta{"labels", string(labels)})
	}
	if o := c.d.Origin; o != nil {
		name, n = o.Model, o.Version
		metas = append(metas, meta{"model", o.Model}, meta{"version", strconv.FormatUint(o.Version, 10)}, meta{"epoch", strconv.FormatUint(o.Epoch, 10)},
			meta{"examples", strconv.FormatUint(o.Examples, 10)}, meta{"created", o.Created}, meta{"hash", o.Hash}, meta{"offsets", string(o.Offsets)})
	}
	m := &Model{Bytes: c.model(name, version.String, int64(n), metas), Inputs: c.inputs}
	if len(m.Bytes) > maxBytes {
		return nil, refuse("it would have %d bytes, the limit is %d", len(m.Bytes), maxBytes)
	}
	return m, nil
}
