// Package oip reads requests of the Open Inference Protocol, version 2, with tensors in
// JSON, and writes the responses. Each row of a request becomes an example in JSON and
// is scored as if it had been posted alone, so everything that the documents say about
// JSON records holds for tensors too. It also describes the HTTP server in OpenAPI.
package oip

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/internal/app/serve"
	"github.com/streamsvm/streamsvm/internal/jsonenc"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// A Model is the model that a request is about.
type Model struct {
	Name    string
	Version string // empty if the model comes from a file
	Learner string
	// Labels are the classes in the order of their numbers, of two classes the
	// positive one second. It is nil for a regression.
	Labels []string
	// LabelValues are the labels as JSON has them; see predictor.Scorer.LabelValues.
	LabelValues []any
	Inputs      codec.Inputs
}

// A tensor of a request, or of the metadata of a model.
type tensor struct {
	Name       string  `json:"name"`
	Shape      []int64 `json:"shape,omitempty"`
	Datatype   string  `json:"datatype,omitempty"`
	Parameters struct {
		BinarySize     *int64 `json:"binary_data_size,omitempty"`
		Classification int    `json:"classification,omitempty"`
	} `json:"parameters,omitzero"`
	Data json.RawMessage `json:"data,omitempty"`
}

// An Infer is an inference request and its response. The zero value is ready for
// use. Its memory is reused by the next request.
type Infer struct {
	req struct {
		ID      string   `json:"id"`
		Inputs  []tensor `json:"inputs"`
		Outputs []tensor `json:"outputs"`
	}
	n       int // rows
	columns []column
	batch   []byte   // the rows of a batch
	rows    [][]byte // each of them, in batch

	done    int // rows that have been answered
	outputs []output
	errors  output // sent only if a row failed
}

// Clear forgets the request but keeps memory.
func (q *Infer) Clear() {
	clear(q.columns)
	clear(q.rows)
	for i := range q.outputs {
		q.outputs[i].data = q.outputs[i].data[:0]
	}
	*q = Infer{columns: q.columns[:0], batch: q.batch[:0], rows: q.rows[:0], outputs: q.outputs[:0], errors: output{data: q.errors.data[:0]}}
}

// Size returns how many bytes of memory the request takes, besides its body.
func (q *Infer) Size() int {
	n := cap(q.batch) + 24*cap(q.rows) + cap(q.errors.data)
	for _, o := range q.outputs[:cap(q.outputs)] {
		n += cap(o.data)
	}
	for i := range q.req.Inputs {
		n += len(q.req.Inputs[i].Data)
	}
	return n
}

// Len returns the number of rows.
func (q *Infer) Len() int { return q.n }

// maxTensors limits the tensors of a request. An empty one takes 3 bytes in a
// request and 40 times as many in memory.
const maxTensors = 1 << 16

// counted is a list whose elements are counted, but not kept.
type counted struct{}

func (*counted) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return nil
	}
	n := 0
	return serve.Items(data, func([]byte) error {
		if n++; n > maxTensors {
			return fmt.Errorf("a list has more than %d tensors", maxTensors)
		}
		return nil
	})
}

// unmarshal is json.Unmarshal with errors in terms of the protocol.
func unmarshal(body []byte, v any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return errors.New("the request is empty")
	}
	err := json.Unmarshal(body, v)
	bad, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return err
	case bad.Field == "":
		return errors.New("the request is not an object")
	}
	want := "an integer"
	switch bad.Type.Kind() {
	case reflect.Struct:
		want = "an object"
	case reflect.Slice:
		want = "a list"
	case reflect.String:
		want = "a string"
	}
	return fmt.Errorf("%s: want %s, not %s", bad.Field, want, bad.Value)
}

// Read reads a request of at most maxRows rows for the model m.
func (q *Infer) Read(m *Model, body []byte, maxRows int) error {
	q.Clear()
	if len(body) > 3*maxTensors {
		var lists struct {
			Inputs  counted `json:"inputs"`
			Outputs counted `json:"outputs"`
		}
		if err := unmarshal(body, &lists); err != nil {
			return err
		}
	}
	if err := unmarshal(body, &q.req); err != nil {
		return err
	}
	if err := q.readOutputs(m); err != nil {
		return err
	}
	if len(q.req.Inputs) == 0 {
		return errors.New("the request has no inputs")
	}
	q.n = -1
	for i := range q.req.Inputs {
		t := &q.req.Inputs[i]
		c, err := m.column(t)
		switch {
		case err != nil:
		case q.n >= 0 && t.Shape[0] != int64(q.n):
			err = fmt.Errorf("it has %d rows, the one before %d", t.Shape[0], q.n)
		case t.Shape[0] > int64(maxRows):
			return fmt.Errorf("%w: %d, the limit is %d", serve.ErrTooMany, t.Shape[0], maxRows)
		case slices.ContainsFunc(q.columns, func(o column) bool { return o.field == c.field }):
			err = errors.New("it comes twice")
		case t.Parameters.BinarySize != nil:
			err = errors.New("binary tensors are not supported, send its values in JSON")
		default:
			q.n = int(t.Shape[0])
			err = c.check(q.n)
		}
		if err != nil {
			return fmt.Errorf("input %q: %w", t.Name, err)
		}
		q.columns = append(q.columns, c)
	}
	return q.order(m)
}

// order sorts the columns of vectors by feature, and checks that all are there.
func (q *Infer) order(m *Model) error {
	fields := m.Inputs.Fields
	if m.Inputs.Events || len(q.columns) == 1 && q.columns[0].field < 0 {
		return nil
	}
	sort.Slice(q.columns, func(i, j int) bool { return q.columns[i].field < q.columns[j].field })
	if q.columns[0].field < 0 {
		return errors.New("x comes with other inputs")
	}
	for i := range fields {
		if i == len(q.columns) || q.columns[i].field != i {
			return fmt.Errorf("there is no %q, which the model needs", fields[i].Name)
		}
	}
	return nil
}

// column returns the column of an input. Its values are not checked yet.
func (m *Model) column(t *tensor) (c column, err error) {
	switch t.Datatype {
	case "BOOL", "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "FP32", "FP64", "BYTES":
	default:
		return c, fmt.Errorf("the datatype is %q, want BOOL, BYTES, FP64, FP32, or one of INT and UINT", t.Datatype)
	}
	width := int64(1)
	switch {
	case len(t.Shape) == 0 || len(t.Shape) > 2:
		return c, fmt.Errorf("the shape is %v, want [rows] or [rows, values]", t.Shape)
	case len(t.Shape) == 2:
		width = t.Shape[1]
	}
	if t.Shape[0] < 0 || width < 1 || width > math.MaxInt32 {
		return c, fmt.Errorf("the shape is %v", t.Shape)
	}
	c = column{width: int(width), data: t.Data}
	c.field = slices.IndexFunc(m.Inputs.Fields, func(f codec.Input) bool { return f.Name == t.Name })
	if c.field < 0 {
		if t.Name == "x" && !m.Inputs.Events {
			return c, nil
		}
		return c, fmt.Errorf("the model does not have it: it has %s", m.inputNames())
	}
	f := &m.Inputs.Fields[c.field]
	c.list, c.tags = isList(f), f.Width < 0
	if c.width != 1 && !c.list {
		return c, fmt.Errorf("the shape is %v, want one value in a row", t.Shape)
	}
	if m.Inputs.Events {
		c.key = append(jsonenc.AppendString(nil, f.Name), ':')
	}
	return c, nil
}

// isList reports whether a record has a list of values for f.
func isList(f *codec.Input) bool {
	return f.Type == string(events.Array) || f.Width < 0
}

// inputNames lists the fields that the model uses, 20 at most.
func (m *Model) inputNames() string {
	var names []string
	for i := range m.Inputs.Fields {
		if m.Inputs.Fields[i].Type != string(events.Ignore) {
			names = append(names, m.Inputs.Fields[i].Name)
		}
	}
	if len(names) == 0 {
		return "x"
	}
	if len(names) > 20 {
		names = append(names[:20], "...")
	}
	return strings.Join(names, ", ")
}

// Batches returns the rows as examples in JSON. They are written a batch at a time,
// since each row repeats the names of its fields, which can take many times the
// bytes of the request. A batch is valid until the next one.
func (q *Infer) Batches(m *Model) iter.Seq[[][]byte] {
	open, shut := `{"x":[`, "]}"
	if m.Inputs.Events {
		open, shut = "{", "}"
	}
	return func(yield func([][]byte) bool) {
		for i := range q.columns {
			q.columns[i].next = 0
		}
		q.batch = q.batch[:0]
		rows := func(yield func([]byte) bool) {
			for range q.n {
				// When batch is moved to larger memory, earlier rows keep the old one.
				from := len(q.batch)
				q.batch = append(q.batch, open...)
				for k := range q.columns {
					if k > 0 {
						q.batch = append(q.batch, ',')
					}
					q.batch = q.columns[k].append(q.batch)
				}
				q.batch = append(q.batch, shut...)
				if !yield(q.batch[from:len(q.batch):len(q.batch)]) {
					return
				}
			}
		}
		serve.Batches(rows, &q.rows)(func(batch [][]byte) bool {
			more := yield(batch)
			q.batch = q.batch[:0]
			return more
		})
	}
}

// A column holds the values of an input: rows of width values each.
type column struct {
	field int    // in the inputs of the model; -1: the vector x
	key   []byte // `"name":` of a field of events
	width int
	list  bool   // a row is a list of values
	tags  bool   // in which nulls only fill up a row of the tensor
	data  []byte // a list of values, or of rows that are lists of values
	next  int    // where in data the next row begins; 0: at the first
}

// check reports whether the data are n rows.
func (c *column) check(n int) error {
	switch {
	case c.data == nil:
		return errors.New("it has no data")
	case c.data[0] != '[':
		return errors.New("its data is not a list")
	}
	nested, count := false, 0
	err := serve.Items(c.data, func(item []byte) error {
		if count == 0 {
			nested = item[0] == '['
		}
		if nested != (item[0] == '[') {
			return errors.New("some of its values are in lists of their own")
		}
		if !nested {
			count++
		} else {
			values := 0
			_ = serve.Items(item, func([]byte) error { values++; return nil })
			if values != c.width {
				return fmt.Errorf("row %d has %d values, want %d", count/c.width, values, c.width)
			}
			count += values
		}
		if count > n*c.width {
			return errors.New("it has more values than its shape says")
		}
		return nil
	})
	if err == nil && (count/c.width < n || count%c.width != 0) {
		err = errors.New("it has fewer values than its shape says")
	}
	return err
}

// append appends the next row to an object or a list.
func (c *column) append(b []byte) []byte {
	if c.next == 0 {
		c.next = serve.SkipSpace(c.data, serve.SkipSpace(c.data, 0)+1)
	}
	first, end := c.next, serve.EndOf(c.data, c.next)
	for left := c.width - 1; ; left-- {
		if c.next = serve.SkipSpace(c.data, end); c.next < len(c.data) && c.data[c.next] == ',' {
			c.next = serve.SkipSpace(c.data, c.next+1)
		}
		if left == 0 || c.data[first] == '[' {
			break
		}
		end = serve.EndOf(c.data, c.next)
	}
	row := c.data[first:end]
	if row[0] == '[' {
		row = row[1 : len(row)-1]
	}
	b = append(b, c.key...)
	if !c.list {
		return append(b, row...)
	}
	b = append(b, '[')
	if !c.tags {
		return append(append(b, row...), ']')
	}
	from := len(b)
	for i := serve.SkipSpace(row, 0); i < len(row); {
		end := serve.EndOf(row, i)
		if tag := row[i:end]; string(tag) != "null" {
			if len(b) > from {
				b = append(b, ',')
			}
			b = append(b, tag...)
		}
		i = serve.SkipSpace(row, serve.SkipSpace(row, end)+1) // behind the comma
	}
	return append(b, ']')
}

// An output is a tensor of the response.
type output struct {
	name string
	data []byte // values in JSON, with commas between them
}

// outputNames lists the outputs of the model.
func (m *Model) outputNames() []string {
	if m.Labels == nil {
		return []string{"decision"}
	}
	return []string{"label", "decision", "probability"}
}

// readOutputs reads which outputs are requested: all if none is named.
func (q *Infer) readOutputs(m *Model) error {
	names := m.outputNames()
	if len(q.req.Outputs) > 0 {
		names = nil
	}
	for i := range q.req.Outputs {
		o := &q.req.Outputs[i]
		switch {
		case o.Parameters.Classification != 0:
			return fmt.Errorf("output %q: classification is not supported: the class is in label", o.Name)
		case o.Name != "error" && !slices.Contains(m.outputNames(), o.Name):
			return fmt.Errorf("the model has no output %q: it has %s", o.Name, strings.Join(m.outputNames(), ", "))
		}
		names = append(names, o.Name)
	}
	for _, name := range names {
		if len(q.outputs) == cap(q.outputs) {
			q.outputs = append(q.outputs, output{})
		} else {
			q.outputs = q.outputs[:len(q.outputs)+1]
		}
		o := &q.outputs[len(q.outputs)-1]
		o.name, o.data = name, o.data[:0]
	}
	return nil
}

// width returns how many values an output has for each row.
func (m *Model) width(name string) int {
	if name != "label" && name != "error" && len(m.Labels) > 2 {
		return len(m.Labels)
	}
	return 1
}

// Add adds the predictions for the next rows to the response. A row without a
// prediction is null in all outputs; the output "error" then has the reason.
func (q *Infer) Add(m *Model, rows []predictor.Prediction) {
	for i := range q.outputs {
		o := &q.outputs[i]
		width := m.width(o.name)
		for k := range rows {
			if q.done+k > 0 {
				o.data = append(o.data, ',')
			}
			o.data = appendOutput(o.data, &rows[k], o.name, width)
		}
	}
	q.addErrors(rows)
	q.done += len(rows)
}

// addErrors adds to the output "error", unless it is among those requested. It
// begins with the first row that failed.
func (q *Infer) addErrors(rows []predictor.Prediction) {
	if slices.ContainsFunc(q.outputs, func(o output) bool { return o.name == "error" }) {
		return
	}
	for k := range rows {
		if q.errors.name == "" && rows[k].Err != nil {
			q.errors.name = "error"
			for range q.done + k {
				q.errors.data = append(q.errors.data, "null,"...)
			}
		} else if q.errors.name != "" {
			q.errors.data = append(q.errors.data, ',')
		}
		if q.errors.name != "" {
			q.errors.data = appendOutput(q.errors.data, &rows[k], "error", 1)
		}
	}
}

// appendOutput appends the values of an output for one row.
func appendOutput(b []byte, p *predictor.Prediction, name string, width int) []byte {
	list, one := p.Scores, p.Score
	switch name {
	case "error":
		if p.Err == nil {
			return append(b, "null"...)
		}
		return jsonenc.AppendString(b, p.Err.Error())
	case "label":
		if p.Err != nil {
			return append(b, "null"...)
		}
		return jsonenc.AppendString(b, string(p.AppendText(nil)))
	case "probability":
		list, one = p.Probabilities, p.Probability
	}
	if p.Err != nil {
		list, one = nil, math.NaN()
	}
	if width == 1 {
		return jsonenc.AppendNumber(b, one)
	}
	for k := range width {
		if k > 0 {
			b = append(b, ',')
		}
		if k < len(list) {
			b = jsonenc.AppendNumber(b, list[k])
		} else {
			b = append(b, "null"...)
		}
	}
	return b
}

// Append appends the response.
func (q *Infer) Append(b []byte, m *Model) []byte {
	b = jsonenc.AppendString(append(b, `{"model_name":`...), m.Name)
	if m.Version != "" {
		b = jsonenc.AppendString(append(b, `,"model_version":`...), m.Version)
	}
	if q.req.ID != "" {
		b = jsonenc.AppendString(append(b, `,"id":`...), q.req.ID)
	}
	b = append(b, `,"outputs":[`...)
	for i := range q.outputs {
		if i > 0 {
			b = append(b, ',')
		}
		b = q.appendTensor(b, m, &q.outputs[i])
	}
	if q.errors.name != "" {
		b = q.appendTensor(append(b, ','), m, &q.errors)
	}
	return append(b, "]}"...)
}

func (q *Infer) appendTensor(b []byte, m *Model, o *output) []byte {
	b = jsonenc.AppendString(append(b, `{"name":`...), o.name)
	b = strconv.AppendInt(append(b, `,"shape":[`...), int64(q.done), 10)
	if width := m.width(o.name); width > 1 {
		b = strconv.AppendInt(append(b, ','), int64(width), 10)
	}
	b = append(append(append(b, `],"datatype":"`...), datatype(o.name)...), `","data":[`...)
	return append(append(b, o.data...), "]}"...)
}

// datatype returns the datatype of an output.
func datatype(name string) string {
	if name == "label" || name == "error" {
		return "BYTES"
	}
	return "FP64"
}

// Metadata describes the model as the protocol prescribes.
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
	for i := range m.Inputs.Fields {
		f := &m.Inputs.Fields[i]
		t := tensor{Name: f.Name, Shape: []int64{-1}, Datatype: "BYTES"}
		switch events.Type(f.Type) {
		case events.Ignore:
			continue
		case events.Numeric, events.Array, events.Summary, events.Length:
			t.Datatype = "FP64"
		case events.Boolean:
			t.Datatype = "BOOL"
		}
		if isList(f) {
			t.Shape = append(t.Shape, int64(f.Width))
		}
		out.Inputs = append(out.Inputs, t)
	}
	if len(m.Inputs.Fields) == 0 {
		d := int64(m.Inputs.Length)
		if d == 0 {
			d = -1
		}
		out.Inputs = append(out.Inputs, tensor{Name: "x", Shape: []int64{-1, d}, Datatype: "FP64"})
	}
	for _, name := range m.outputNames() {
		t := tensor{Name: name, Shape: []int64{-1}, Datatype: datatype(name)}
		if width := m.width(name); width > 1 {
			t.Shape = append(t.Shape, int64(width))
		}
		out.Outputs = append(out.Outputs, t)
	}
	return out
}
