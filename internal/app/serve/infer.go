package serve

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/streamsvm/streamsvm/internal/event"
)

// BinaryHeader is the header of requests and answers with binary tensors: how
// many bytes of JSON come before them.
const BinaryHeader = "Inference-Header-Content-Length"

// tensor is one that a request brings, asks for, or that a model has.
type tensor struct {
	Name       string           `json:"name"`
	Shape      []int64          `json:"shape,omitempty"`
	Datatype   string           `json:"datatype,omitempty"`
	Parameters tensorParameters `json:"parameters,omitzero"`
	Data       json.RawMessage  `json:"data,omitempty"`
}

type tensorParameters struct {
	BinarySize     *int64 `json:"binary_data_size,omitempty"`
	Binary         *bool  `json:"binary_data,omitempty"`
	Classification int    `json:"classification,omitempty"`
}

// An Infer is a request of the Open Inference Protocol.
type Infer struct {
	Rows

	req  inferRequest
	want []wanted
}

type inferRequest struct {
	ID         string `json:"id"`
	Parameters struct {
		Binary bool `json:"binary_data_output"`
	} `json:"parameters"`
	Inputs  []tensor `json:"inputs"`
	Outputs []tensor `json:"outputs"`
}

type wanted struct {
	name   string
	binary bool
}

// Read reads a request, of which the first header bytes are JSON; a negative
// header is that of requests without binary tensors. No more than most rows are
// allowed.
func (q *Infer) Read(m *Model, body []byte, header, most int) error {
	q.reset()
	q.req, q.want = inferRequest{}, q.want[:0]
	text, rest := body, []byte(nil)
	if header >= 0 {
		if header > len(body) {
			return fmt.Errorf("the header %s is %d, the body has %d bytes", BinaryHeader, header, len(body))
		}
		text, rest = body[:header], body[header:]
	}
	if err := json.Unmarshal(text, &q.req); err != nil {
		return err
	}
	if err := q.outputs(m); err != nil {
		return err
	}
	if len(q.req.Inputs) == 0 {
		return errors.New("the request has no inputs")
	}
	n := int64(-1)
	var cols []given
	for i := range q.req.Inputs {
		t := &q.req.Inputs[i]
		at, k, err := m.Inputs.place(t)
		switch {
		case err != nil:
			return fmt.Errorf("input %q: %w", t.Name, err)
		case n >= 0 && n != t.Shape[0]:
			return fmt.Errorf("input %q has %d rows, the one before %d", t.Name, t.Shape[0], n)
		case t.Shape[0] > int64(most):
			return fmt.Errorf("%w: %d, the limit is %d", ErrTooMany, t.Shape[0], most)
		case slices.ContainsFunc(cols, func(c given) bool { return c.at == at }):
			return fmt.Errorf("input %q comes twice", t.Name)
		}
		n = t.Shape[0]
		c := given{at: at, list: at >= 0 && m.Inputs.columns[at].lists()}
		switch size := t.Parameters.BinarySize; {
		case size == nil && t.Data == nil:
			err = errors.New("it has no data")
		case size == nil:
			c.cells, err = cells(t.Data, int(n), int(k))
		case header < 0:
			err = fmt.Errorf("it is binary, and the request has no header %s", BinaryHeader)
		case *size < 0 || *size > int64(len(rest)):
			err = fmt.Errorf("binary_data_size is %d, and %d bytes are left", *size, len(rest))
		default:
			c.cells, err = unpack(t.Datatype, rest[:*size], int(n), int(k), m.Inputs.events)
			rest = rest[*size:]
		}
		if err != nil {
			return fmt.Errorf("input %q: %w", t.Name, err)
		}
		cols = append(cols, c)
	}
	if len(rest) > 0 {
		return fmt.Errorf("%d bytes come behind the last binary input", len(rest))
	}
	if err := m.Inputs.table(&q.Rows, cols, int(n)); err != nil {
		return err
	}
	q.done()
	return nil
}

// lists reports whether a row has a list of values for the column.
func (c *column) lists() bool { return c.kind == event.Array || c.kind == event.Tags }

var datatypes = map[string]int{
	"BOOL": 1, "INT8": 1, "UINT8": 1, "INT16": 2, "UINT16": 2, "INT32": 4, "UINT32": 4, "INT64": 8, "UINT64": 8, "FP32": 4, "FP64": 8, "BYTES": 0,
}

// place returns the column that an input is for, or -1 if that is the vector x,
// and how many values a row has.
func (in *Inputs) place(t *tensor) (at int, k int64, err error) {
	if _, ok := datatypes[t.Datatype]; !ok {
		return 0, 0, fmt.Errorf("the datatype is %q, want BOOL, BYTES, FP64, FP32, or one of INT and UINT", t.Datatype)
	}
	k = 1
	switch {
	case len(t.Shape) == 0 || len(t.Shape) > 2:
		return 0, 0, fmt.Errorf("the shape is %v, want [rows] or [rows, values]", t.Shape)
	case len(t.Shape) == 2:
		k = t.Shape[1]
	}
	if t.Shape[0] < 0 || k < 1 || k > math.MaxInt32 {
		return 0, 0, fmt.Errorf("the shape is %v", t.Shape)
	}
	at, ok := in.index[t.Name]
	switch {
	case ok && !in.columns[at].lists() && k != 1:
		return 0, 0, fmt.Errorf("the shape is %v, want one value in a row", t.Shape)
	case ok:
		return at, k, nil
	case t.Name == "x" && !in.events:
		return -1, k, nil
	}
	return 0, 0, fmt.Errorf("the model does not have it: it has %s", in.names())
}

var errShort = errors.New("it has fewer values than its shape says")

// cells cuts a list of values, or of lists of them, into n rows of k values each:
// the texts of the values with the commas between them.
func cells(data []byte, n, k int) ([][]byte, error) {
	if len(data) == 0 || data[0] != '[' {
		return nil, errors.New("its data is no list")
	}
	if n > len(data)/k {
		return nil, errShort
	}
	out := make([][]byte, 0, n)
	first, nested, count := 0, false, 0
	i := skipSpace(data, 1)
	for i < len(data) && data[i] != ']' {
		end := endOf(data, i)
		if count == 0 {
			nested = data[i] == '['
		}
		if nested != (data[i] == '[') {
			return nil, errors.New("some of its values are in lists of their own")
		}
		if nested {
			inner := 0
			_ = Items(data[i:end], func([]byte) error { inner++; return nil })
			if inner != k {
				return nil, fmt.Errorf("row %d has %d values, want %d", len(out), inner, k)
			}
			out = append(out, data[i+1:end-1])
			count += k
		} else {
			if count%k == 0 {
				first = i
			}
			if count++; count%k == 0 {
				out = append(out, data[first:end])
			}
		}
		if len(out) > n {
			return nil, errors.New("it has more values than its shape says")
		}
		if i = skipSpace(data, end); i < len(data) && data[i] == ',' {
			i = skipSpace(data, i+1)
		}
	}
	if count != n*k {
		return nil, errShort
	}
	return out, nil
}

// unpack writes binary values, which are little-endian, as JSON: n rows of k
// values. A NaN is null in events, as what is missing there.
func unpack(datatype string, b []byte, n, k int, null bool) ([][]byte, error) {
	size := datatypes[datatype]
	least := size
	if size == 0 { // a text has its length before it
		least = 4
	}
	if n > len(b)/least/k {
		return nil, errShort
	}
	if size > 0 && len(b) != n*k*size {
		return nil, fmt.Errorf("it has %d bytes, want %d", len(b), n*k*size)
	}
	out := make([][]byte, n)
	ends := make([]int, n)
	text := make([]byte, 0, len(b)+n*k)
	float := func(v float64, bits int) {
		switch {
		case v != v && null:
			text = append(text, "null"...)
		case v != v:
			text = append(text, "NaN"...)
		case v > math.MaxFloat64:
			text = append(text, "Infinity"...)
		case v < -math.MaxFloat64:
			text = append(text, "-Infinity"...)
		default:
			text = strconv.AppendFloat(text, v, 'g', -1, bits)
		}
	}
	for i := range n {
		for j := range k {
			if j > 0 {
				text = append(text, ',')
			}
			if size == 0 {
				if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
					return nil, errShort
				}
				s := b[4 : 4+binary.LittleEndian.Uint32(b)]
				b = b[4+len(s):]
				if !utf8.Valid(s) {
					return nil, fmt.Errorf("the text of row %d is not UTF-8", i)
				}
				text = AppendString(text, string(s))
				continue
			}
			var u uint64
			for m := size - 1; m >= 0; m-- {
				u = u<<8 | uint64(b[m])
			}
			b = b[size:]
			switch shift := 64 - 8*size; {
			case datatype == "FP64":
				float(math.Float64frombits(u), 64)
			case datatype == "FP32":
				float(float64(math.Float32frombits(uint32(u))), 32)
			case datatype == "BOOL":
				text = strconv.AppendBool(text, u != 0)
			case datatype[0] == 'U':
				text = strconv.AppendUint(text, u, 10)
			default:
				text = strconv.AppendInt(text, int64(u)<<shift>>shift, 10)
			}
		}
		ends[i] = len(text)
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%d bytes come behind its last value", len(b))
	}
	from := 0
	for i, end := range ends {
		out[i] = text[from:end]
		from = end
	}
	return out, nil
}

// outputs finds out what is asked for: all, where nothing is named.
func (q *Infer) outputs(m *Model) error {
	binary := func(p *tensorParameters) bool {
		if p.Binary != nil {
			return *p.Binary
		}
		return q.req.Parameters.Binary
	}
	for i := range q.req.Outputs {
		o := &q.req.Outputs[i]
		switch {
		case o.Parameters.Classification != 0:
			return fmt.Errorf("output %q: classification is not supported: the class is in label", o.Name)
		case o.Name != "error" && !slices.Contains(m.outputs(), o.Name):
			return fmt.Errorf("the model has no output %q: it has %s", o.Name, strings.Join(m.outputs(), ", "))
		}
		q.want = append(q.want, wanted{o.Name, binary(&o.Parameters)})
	}
	if len(q.want) == 0 {
		for _, name := range m.outputs() {
			q.want = append(q.want, wanted{name, q.req.Parameters.Binary})
		}
	}
	return nil
}

// outputs lists what the model answers.
func (m *Model) outputs() []string {
	if m.Labels == nil {
		return []string{"decision"}
	}
	return []string{"label", "decision", "probability"}
}

// appendHead appends what an answer begins with.
func (m *Model) appendHead(b []byte, id string) []byte {
	b = AppendString(append(b, `{"model_name":`...), m.Name)
	if m.Version != "" {
		b = AppendString(append(b, `,"model_version":`...), m.Version)
	}
	if id != "" {
		b = AppendString(append(b, `,"id":`...), id)
	}
	return b
}

// Append appends the answer to a request: header bytes of JSON, and behind them
// binary tensors; header is negative where there are none. What there is no
// prediction for is null in all outputs, NaN or empty in binary ones, and an
// output "error" says why.
func (q *Infer) Append(b []byte, m *Model, rows []Prediction) (out []byte, header int) {
	want := q.want
	if slices.ContainsFunc(rows, func(p Prediction) bool { return p.Err != nil }) && !slices.ContainsFunc(want, func(w wanted) bool { return w.name == "error" }) {
		want = append(want, wanted{"error", q.req.Parameters.Binary})
	}
	var bin []byte
	from := len(b)
	b = append(m.appendHead(b, q.req.ID), `,"outputs":[`...)
	header = -1
	for i, w := range want {
		if i > 0 {
			b = append(b, ',')
		}
		width, datatype := 1, "FP64"
		if w.name == "label" || w.name == "error" {
			datatype = "BYTES"
		} else if len(m.Labels) > 2 {
			width = len(m.Labels)
		}
		b = AppendString(append(b, `{"name":`...), w.name)
		b = strconv.AppendInt(append(b, `,"shape":[`...), int64(len(rows)), 10)
		if width > 1 {
			b = strconv.AppendInt(append(b, ','), int64(width), 10)
		}
		b = append(append(append(b, `],"datatype":"`...), datatype...), '"')
		if w.binary {
			was := len(bin)
			for k := range rows {
				bin = rows[k].appendBinary(bin, w.name, width)
			}
			b = strconv.AppendInt(append(b, `,"parameters":{"binary_data_size":`...), int64(len(bin)-was), 10)
			b = append(b, "}}"...)
			header = 0
			continue
		}
		b = append(b, `,"data":[`...)
		for k := range rows {
			if k > 0 {
				b = append(b, ',')
			}
			b = rows[k].appendJSON(b, w.name, width)
		}
		b = append(b, "]}"...)
	}
	b = append(b, "]}"...)
	if header == 0 {
		header = len(b) - from
	}
	return append(b, bin...), header
}

// text returns the value of an output of texts.
func (p *Prediction) text(name string) (s string, ok bool) {
	switch {
	case name == "label":
		return p.Label, p.Err == nil
	case p.Err != nil:
		return p.Err.Error(), true
	}
	return "", false
}

// numbers calls f with the values of an output of numbers, NaN where there are
// none.
func (p *Prediction) numbers(name string, width int, f func(float64)) {
	list := p.Scores
	one := p.Decision
	if name == "probability" {
		list, one = p.Probabilities, p.Probability
	}
	if p.Err != nil {
		list, one = nil, math.NaN()
	}
	if width == 1 {
		f(one)
		return
	}
	for k := range width {
		if k < len(list) {
			f(list[k])
		} else {
			f(math.NaN())
		}
	}
}

func (p *Prediction) appendJSON(b []byte, name string, width int) []byte {
	if name == "label" || name == "error" {
		if s, ok := p.text(name); ok {
			return AppendString(b, s)
		}
		return append(b, "null"...)
	}
	first := true
	p.numbers(name, width, func(v float64) {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = AppendNumber(b, v)
	})
	return b
}

func (p *Prediction) appendBinary(b []byte, name string, width int) []byte {
	if name == "label" || name == "error" {
		s, _ := p.text(name)
		return append(binary.LittleEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	p.numbers(name, width, func(v float64) { b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v)) })
	return b
}

// Metadata describes the model in the words of the protocol.
func (m *Model) Metadata() any {
	type meta struct {
		Name     string   `json:"name"`
		Versions []string `json:"versions,omitempty"`
		Platform string   `json:"platform"`
		Inputs   []tensor `json:"inputs"`
		Outputs  []tensor `json:"outputs"`
		Labels   []string `json:"labels,omitempty"`
	}
	out := meta{Name: m.Name, Platform: "streamsvm_" + m.Learner, Labels: m.Labels, Inputs: []tensor{}}
	if m.Version != "" {
		out.Versions = []string{m.Version}
	}
	for i := range m.Inputs.columns {
		c := &m.Inputs.columns[i]
		t := tensor{Name: c.name, Shape: []int64{-1}, Datatype: "BYTES"}
		switch c.kind {
		case event.Ignore:
			continue
		case event.Numeric, event.Array:
			t.Datatype = "FP64"
		case event.Boolean:
			t.Datatype = "BOOL"
		}
		if c.lists() {
			t.Shape = append(t.Shape, int64(c.width))
		}
		out.Inputs = append(out.Inputs, t)
	}
	if len(m.Inputs.columns) == 0 {
		d := int64(m.Inputs.length)
		if d == 0 {
			d = -1
		}
		out.Inputs = append(out.Inputs, tensor{Name: "x", Shape: []int64{-1, d}, Datatype: "FP64"})
	}
	for _, name := range m.outputs() {
		t := tensor{Name: name, Shape: []int64{-1}, Datatype: "FP64"}
		if name == "label" {
			t.Datatype = "BYTES"
		} else if len(m.Labels) > 2 {
			t.Shape = append(t.Shape, int64(len(m.Labels)))
		}
		out.Outputs = append(out.Outputs, t)
	}
	return out
}
