package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/streamsvm/streamsvm/events"
)

// An Invocation is a request as MLflow's servers take it.
type Invocation struct {
	Rows
	output string
	parsed int // bytes of the body that have been copied
	// What has been answered so far.
	rows         int
	answer, errs []byte
}

// Clear forgets the request.
func (q *Invocation) Clear() {
	q.Rows.Clear()
	q.output, q.parsed, q.rows, q.answer, q.errs = "", 0, 0, q.answer[:0], q.errs[:0]
}

// Size is how many bytes of memory the request takes, besides its body.
func (q *Invocation) Size() int {
	return q.Rows.Size() + q.parsed + cap(q.answer) + cap(q.errs)
}

// Outputs lists what predictions may be, as the parameter "output" of a request
// says.
func Outputs() []string { return []string{"label", "decision", "probability"} }

// Read reads a request of at most so many rows.
func (q *Invocation) Read(m *Model, body []byte, most int) error {
	q.Clear()
	q.parsed = len(body)
	var req struct {
		Split *struct {
			Columns []string        `json:"columns"`
			Data    json.RawMessage `json:"data"`
		} `json:"dataframe_split"`
		Records   json.RawMessage `json:"dataframe_records"`
		Instances json.RawMessage `json:"instances"`
		Inputs    json.RawMessage `json:"inputs"`
		Params    struct {
			Output string `json:"output"`
		} `json:"params"`
	}
	var lists struct {
		Split struct {
			Columns counted `json:"columns"`
		} `json:"dataframe_split"`
	}
	if err := unmarshal(body, &lists, &req); err != nil {
		return err
	}
	q.output = "label"
	if o := req.Params.Output; o != "" {
		if !slices.Contains(Outputs(), o) {
			return fmt.Errorf("params: output is %q, want one of label, decision, probability", o)
		}
		q.output = o
	}
	rows := map[string]json.RawMessage{}
	for name, data := range map[string]json.RawMessage{"dataframe_records": req.Records, "instances": req.Instances, "inputs": req.Inputs} {
		if data != nil {
			rows[name] = data
		}
	}
	if req.Split != nil {
		rows["dataframe_split"] = req.Split.Data
	}
	if len(rows) != 1 {
		return errors.New("want one of dataframe_split, dataframe_records, instances and inputs")
	}
	for name, data := range rows {
		var err error
		switch {
		case len(data) > 0 && data[0] == '{' && name == "inputs":
			err = q.columns(m.Inputs, data, most)
		case len(data) == 0 || data[0] != '[':
			err = errors.New("want a list")
		case name == "dataframe_split" && req.Split.Columns != nil:
			err = q.split(m.Inputs, req.Split.Columns, data, most)
		default:
			err = q.list(m.Inputs, data, most)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// count refuses the row that is one too many.
func (r *Rows) count(most int) error {
	if r.n >= most {
		return fmt.Errorf("%w: the limit is %d", ErrTooMany, most)
	}
	return nil
}

// items makes a row of each value of a list.
func (r *Rows) items(data []byte, most int, row func(item []byte) error) error {
	return r.check(func() error {
		return Items(data, func(item []byte) error {
			if err := r.count(most); err != nil {
				return err
			}
			return row(item)
		})
	})
}

// find returns the column of a name: -1 for one that the model does not have.
func (in *Inputs) find(name string) (int, error) {
	if at, ok := in.index[name]; ok {
		return at, nil
	}
	if in.strict {
		return -1, fmt.Errorf("the model does not take %q: it has %s", name, in.names())
	}
	return -1, nil
}

// split makes rows of lists of values whose columns have names.
func (q *Invocation) split(in *Inputs, names []string, data []byte, most int) error {
	at := make([]int, len(names)) // the columns of the model
	known := 0
	for k, name := range names {
		var err error
		if at[k], err = in.find(name); err != nil {
			return err
		}
		if at[k] >= 0 {
			if slices.Contains(at[:k], at[k]) {
				return fmt.Errorf("column %q comes twice", name)
			}
			known++
		}
	}
	if len(in.columns) == 0 { // what features are called, the model does not know
		return q.list(in, data, most)
	}
	if known == 0 {
		return fmt.Errorf("no column is one of the model's: %s", in.names())
	}
	values := make([][]byte, len(in.columns))
	return q.items(data, most, func(item []byte) error {
		if item[0] != '[' {
			return fmt.Errorf("row %d is no list", q.n)
		}
		k := 0
		clear(values)
		_ = Items(item, func(value []byte) error {
			if k < len(at) && at[k] >= 0 {
				values[at[k]] = value
			}
			k++
			return nil
		})
		if k != len(names) {
			return fmt.Errorf("row %d has %d values, and there are %d columns", q.n, k, len(names))
		}
		return q.row(in, values)
	})
}

// row writes a row of values, nil where there is none.
func (q *Invocation) row(in *Inputs, values [][]byte) error {
	if !in.events {
		q.buf = append(q.buf, `{"x":[`...)
	} else {
		q.buf = append(q.buf, '{')
	}
	first := true
	for j, v := range values {
		if v == nil && in.events {
			continue
		}
		if v == nil {
			return fmt.Errorf("row %d has no %q, which the model needs", q.n, in.columns[j].name)
		}
		if !first {
			q.buf = append(q.buf, ',')
		}
		first = false
		if in.events {
			q.buf = append(q.buf, in.columns[j].key...)
		}
		q.buf = append(q.buf, v...)
	}
	if !in.events {
		q.buf = append(q.buf, ']')
	}
	q.buf = append(q.buf, '}')
	return q.end()
}

// list makes rows of a list of objects, or of lists of values without names.
func (q *Invocation) list(in *Inputs, data []byte, most int) error {
	values := make([][]byte, len(in.columns))
	return q.items(data, most, func(item []byte) error {
		switch {
		case item[0] == '{' && !in.events && len(in.columns) > 0:
			clear(values)
			_ = Fields(item, func(key, value []byte) error {
				if at, ok := in.index[string(key)]; ok {
					values[at] = value
				}
				return nil
			})
			return q.row(in, values)
		case item[0] == '{': // an example as it is
			q.buf = append(q.buf, item...)
		case item[0] == '[' && in.events:
			return fmt.Errorf("row %d is a list, and the model takes events with the fields %s", q.n, in.names())
		case item[0] == '[':
			q.buf = append(append(append(q.buf, `{"x":`...), item...), '}')
		default:
			return fmt.Errorf("row %d is neither an object nor a list", q.n)
		}
		return q.end()
	})
}

// columns makes rows of an object of columns.
func (q *Invocation) columns(in *Inputs, data []byte, most int) error {
	var cols []given
	n, before := -1, ""
	err := Fields(data, func(key, value []byte) error {
		name := string(key)
		at, err := in.find(name)
		if err != nil {
			return err
		}
		vector := name == "x" && !in.events && at < 0
		if at < 0 && !vector {
			return nil
		}
		if value[0] != '[' {
			return fmt.Errorf("column %q is no list", name)
		}
		if slices.ContainsFunc(cols, func(c given) bool { return c.at == at }) {
			return fmt.Errorf("column %q comes twice", name)
		}
		// A tensor [rows, 1] has its values in lists of one.
		c := given{at: at, cells: cells{data: value, k: 1, strip: vector || !in.columns[at].lists() && in.columns[at].kind != events.Ignore, empty: !vector}}
		rows := 0
		err = Items(value, func(item []byte) error {
			if rows == most {
				return fmt.Errorf("%w: the limit is %d", ErrTooMany, most)
			}
			if !vector && c.strip && item[0] == '[' && len(item) > 2 {
				item = item[1 : len(item)-1]
				if end := skipSpace(item, endOf(item, skipSpace(item, 0))); end != len(item) {
					return fmt.Errorf("column %q has a list of values in row %d", name, rows)
				}
			}
			rows++
			return nil
		})
		if err != nil {
			return err
		}
		if n >= 0 && n != rows {
			return fmt.Errorf("column %q has %d rows, column %q %d", name, rows, before, n)
		}
		n, before, cols = rows, name, append(cols, c)
		return nil
	})
	if err != nil {
		return err
	}
	if len(cols) == 0 {
		return fmt.Errorf("no column is one of the model's: %s", in.names())
	}
	return q.check(func() error { return in.table(&q.Rows, cols, n) })
}

// Add adds what became of the next rows to the answer. What there is no
// prediction for is null, and "errors" says why.
func (q *Invocation) Add(m *Model, rows []Prediction) {
	b := q.answer
	for i := range rows {
		if q.rows+i > 0 {
			b = append(b, ',')
		}
		p := &rows[i]
		switch {
		case p.Err != nil:
			b = append(b, "null"...)
			if len(q.errs) > 0 {
				q.errs = append(q.errs, ',')
			}
			q.errs = append(strconv.AppendInt(append(q.errs, `{"index":`...), int64(q.rows+i), 10), `,"error":`...)
			q.errs = append(AppendString(q.errs, p.Err.Error()), '}')
		case q.output == "label":
			b = append(b, p.JSON...)
		case len(m.Labels) > 2:
			list := p.Scores
			if q.output == "probability" {
				list = p.Probabilities
			}
			if list == nil {
				b = append(b, "null"...)
				continue
			}
			b = append(b, '{')
			for k, v := range list {
				if k > 0 {
					b = append(b, ',')
				}
				b = AppendNumber(append(AppendString(b, m.Labels[k]), ':'), v)
			}
			b = append(b, '}')
		case q.output == "decision":
			b = AppendNumber(b, p.Decision)
		default:
			b = AppendNumber(b, p.Probability)
		}
	}
	q.answer = b
	q.rows += len(rows)
}

// Append appends the answer.
func (q *Invocation) Append(b []byte) []byte {
	b = append(append(append(b, `{"predictions":[`...), q.answer...), ']')
	if len(q.errs) > 0 {
		b = append(append(append(b, `,"errors":[`...), q.errs...), ']')
	}
	return append(b, '}')
}
