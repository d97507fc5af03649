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

	"github.com/streamsvm/streamsvm/events"
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
	// What has been answered so far.
	rows   int
	failed bool
	errs   wanted
}

// Clear forgets the request.
func (q *Infer) Clear() {
	q.Rows.Clear()
	q.req, q.rows, q.failed = inferRequest{}, 0, false
	for i := range q.want {
		q.want[i].name = ""
	}
	q.want, q.errs.data = q.want[:0], q.errs.data[:0]
}

// Size is how many bytes of memory the request takes, besides its body.
func (q *Infer) Size() int {
	n := q.Rows.Size() + cap(q.errs.data)
	for _, w := range q.want[:cap(q.want)] {
		n += cap(w.data)
	}
	for i := range q.req.Inputs {
		n += len(q.req.Inputs[i].Data)
	}
	return n
}

type inferRequest struct {
	ID         string `json:"id"`
	Parameters struct {
		Binary bool `json:"binary_data_output"`
	} `json:"parameters"`
	Inputs  []tensor `json:"inputs"`
	Outputs []tensor `json:"outputs"`
}

// maxNames is how many tensors or columns a request may name. An empty one takes
// 3 bytes in a request and 40 times that in memory.
const maxNames = 1 << 16

// counted is a list whose elements are only counted.
type counted struct{}

func (*counted) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return nil
	}
	n := 0
	return Items(data, func([]byte) error {
		if n++; n > maxNames {
			return fmt.Errorf("a list has more than %d tensors or columns", maxNames)
		}
		return nil
	})
}

// unmarshal is json.Unmarshal, once the lists in lists are known not to be too
// long.
func unmarshal(text []byte, lists, to any) error {
	if len(text) > 3*maxNames {
		if err := json.Unmarshal(text, lists); err != nil {
			return err
		}
	}
	return json.Unmarshal(text, to)
}

// wanted is an output that is asked for.
type wanted struct {
	name   string
	binary bool
	data   []byte // its values so far, in JSON with commas between them, or binary
}

// Read reads a request, of which the first header bytes are JSON; a negative
// header is that of requests without binary tensors. No more than most rows are
// allowed.
func (q *Infer) Read(m *Model, body []byte, header, most int) error {
	q.Clear()
	text, rest := body, []byte(nil)
	if header >= 0 {
		if header > len(body) {
			return fmt.Errorf("the header %s is %d, the body has %d bytes", BinaryHeader, header, len(body))
		}
		text, rest = body[:header], body[header:]
	}
	var lists struct {
		Inputs  counted `json:"inputs"`
		Outputs counted `json:"outputs"`
	}
	if err := unmarshal(text, &lists, &q.req); err != nil {
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
			c.cells, err = list(t.Data, int(n), int(k))
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
	return q.check(func() error { return m.Inputs.table(&q.Rows, cols, int(n)) })
}

// lists reports whether a row has a list of values for the column.
func (c *column) lists() bool { return c.kind == events.Array || c.kind == events.Tags }

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
		q.wants(o.Name, binary(&o.Parameters))
	}
	if len(q.want) == 0 {
		for _, name := range m.outputs() {
			q.wants(name, q.req.Parameters.Binary)
		}
	}
	return nil
}

// wants adds an output, in memory of one before.
func (q *Infer) wants(name string, binary bool) {
	if len(q.want) < cap(q.want) {
		q.want = q.want[:len(q.want)+1]
	} else {
		q.want = append(q.want, wanted{})
	}
	w := &q.want[len(q.want)-1]
	w.name, w.binary, w.data = name, binary, w.data[:0]
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

// width is how many values a row has of an output.
func (m *Model) width(name string) int {
	if name != "label" && name != "error" && len(m.Labels) > 2 {
		return len(m.Labels)
	}
	return 1
}

// Add adds what became of the next rows to the answer. What there is no
// prediction for is null in all outputs, NaN or empty in binary ones, and an
// output "error" says why.
func (q *Infer) Add(m *Model, rows []Prediction) {
	for i := range q.want {
		w := &q.want[i]
		w.add(q.rows, m.width(w.name), rows)
	}
	if !slices.ContainsFunc(q.want, func(w wanted) bool { return w.name == "error" }) {
		q.addErrors(rows)
	}
	q.rows += len(rows)
}

// addErrors adds to the output "error", which is there only if a row failed.
func (q *Infer) addErrors(rows []Prediction) {
	if !slices.ContainsFunc(rows, func(p Prediction) bool { return p.Err != nil }) && !q.failed {
		return
	}
	if !q.failed {
		q.errs = wanted{"error", q.req.Parameters.Binary, q.errs.data[:0]}
		var none [64]Prediction // those before, which have not failed
		for n := 0; n < q.rows; n += len(none) {
			q.errs.add(n, 1, none[:min(len(none), q.rows-n)])
		}
	}
	q.failed = true
	q.errs.add(q.rows, 1, rows)
}

// add adds the values of rows, before which there are n others.
func (w *wanted) add(n, width int, rows []Prediction) {
	for k := range rows {
		if w.binary {
			w.data = rows[k].appendBinary(w.data, w.name, width)
			continue
		}
		if n+k > 0 {
			w.data = append(w.data, ',')
		}
		w.data = rows[k].appendJSON(w.data, w.name, width)
	}
}

// Append appends the answer to a request: header bytes of JSON, and behind them
// binary tensors; header is negative where there are none.
func (q *Infer) Append(b []byte, m *Model) (out []byte, header int) {
	want := q.want
	if q.failed {
		want = append(slices.Clip(want), q.errs)
	}
	from := len(b)
	b = append(m.appendHead(b, q.req.ID), `,"outputs":[`...)
	header = -1
	for i := range want {
		w := &want[i]
		if i > 0 {
			b = append(b, ',')
		}
		datatype := "FP64"
		if w.name == "label" || w.name == "error" {
			datatype = "BYTES"
		}
		b = AppendString(append(b, `{"name":`...), w.name)
		b = strconv.AppendInt(append(b, `,"shape":[`...), int64(q.rows), 10)
		if width := m.width(w.name); width > 1 {
			b = strconv.AppendInt(append(b, ','), int64(width), 10)
		}
		b = append(append(append(b, `],"datatype":"`...), datatype...), '"')
		if w.binary {
			b = strconv.AppendInt(append(b, `,"parameters":{"binary_data_size":`...), int64(len(w.data)), 10)
			b = append(b, "}}"...)
			header = 0
			continue
		}
		b = append(append(b, `,"data":[`...), w.data...)
		b = append(b, "]}"...)
	}
	b = append(b, "]}"...)
	if header == 0 {
		header = len(b) - from
	}
	for i := range want {
		if want[i].binary {
			b = append(b, want[i].data...)
		}
	}
	return b, header
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
		case events.Ignore:
			continue
		case events.Numeric, events.Array:
			t.Datatype = "FP64"
		case events.Boolean:
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
