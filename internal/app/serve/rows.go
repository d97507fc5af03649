// Package serve reads requests for predictions in the forms of others, and
// writes the answers: the Open Inference Protocol, version 2, and that of
// MLflow's servers. What a request asks for becomes rows, each an example in
// JSON, which is scored as if it had come alone; so what is said about records in
// JSON holds here too.
package serve

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/internal/event"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// A Model is what requests are about.
type Model struct {
	Name string
	// Version is empty where the model comes from a file.
	Version string
	// Learner is the name of what has learned it.
	Learner string
	// Labels are the texts of two or more classes, in the order of their numbers,
	// the positive one second; nil for a regression.
	Labels []string
	Inputs *Inputs
}

// A Prediction is the answer to one row.
type Prediction struct {
	Label    string // as text
	JSON     string // the label in JSON
	Decision float64
	// Probability is NaN where it is not known.
	Probability float64
	// Scores and Probabilities are those of more than two classes, the latter nil
	// where they are not known.
	Scores, Probabilities []float64
	// Err says why there is no prediction.
	Err error
}

// ErrTooMany is what errors about requests of too many rows wrap.
var ErrTooMany = errors.New("too many rows")

// Inputs says what a model takes: events with named fields, vectors whose
// features have names, or vectors.
type Inputs struct {
	// Root, if not empty, is the field of events in which all others are.
	Root    string
	columns []column
	index   map[string]int // by name
	events  bool
	strict  bool // a field that the schema does not list makes an event unusable
	length  int  // of vectors; 0: not known
}

// column is a field of events, or a feature that has a name.
type column struct {
	name  string
	kind  event.Type
	width int    // values in a row, -1: any number
	key   []byte // `"name":`
}

// NewInputs returns what a model takes that was made for data with the signature.
func NewInputs(sig codec.Signature) (*Inputs, error) {
	have, err := sig.Inputs()
	if err != nil {
		return nil, err
	}
	in := &Inputs{Root: have.Root, index: map[string]int{}, events: have.Events, strict: have.Strict, length: have.Length}
	for i, f := range have.Fields {
		in.index[f.Name] = i
		in.columns = append(in.columns, column{f.Name, event.Type(f.Type), f.Width, append(AppendString(nil, f.Name), ':')})
	}
	return in, nil
}

// names lists the columns that the model looks at, a few of them where there are
// many.
func (in *Inputs) names() string {
	var list []string
	for i := range in.columns {
		if in.columns[i].kind != event.Ignore {
			list = append(list, in.columns[i].name)
		}
	}
	if len(list) > 20 {
		list = append(list[:20], "...")
	}
	if len(list) == 0 {
		return "x"
	}
	return strings.Join(list, ", ")
}

// Rows are the rows of a request, in memory that is used again. The zero value
// is ready for use.
type Rows struct {
	// Values are the rows as examples in JSON.
	Values [][]byte
	buf    []byte
	ends   []int
}

func (r *Rows) reset() { r.Values, r.buf, r.ends = r.Values[:0], r.buf[:0], r.ends[:0] }

// end ends a row.
func (r *Rows) end() { r.ends = append(r.ends, len(r.buf)) }

// done makes Values of what has been written.
func (r *Rows) done() {
	from := 0
	for _, end := range r.ends {
		r.Values = append(r.Values, r.buf[from:end:end])
		from = end
	}
}

// Large reports whether the memory is more than is good to keep.
func (r *Rows) Large() bool { return cap(r.buf)+24*cap(r.Values) > 1<<20 }

// given is a column of a request: the text of its values in each row.
type given struct {
	at    int // in the columns of the model; -1 for vectors
	cells [][]byte
	list  bool // each row has a list of values
}

// table makes rows of columns that all have n cells.
func (in *Inputs) table(r *Rows, cols []given, n int) error {
	if !in.events {
		return in.vectors(r, cols, n)
	}
	for i := range n {
		r.buf = append(r.buf, '{')
		for k := range cols {
			if k > 0 {
				r.buf = append(r.buf, ',')
			}
			c := &in.columns[cols[k].at]
			r.buf = append(r.buf, c.key...)
			if cols[k].list {
				r.buf = appendList(r.buf, cols[k].cells[i], c.kind == event.Tags)
			} else {
				r.buf = append(r.buf, cols[k].cells[i]...)
			}
		}
		r.buf = append(r.buf, '}')
		r.end()
	}
	return nil
}

// appendList appends values as a list; without those that are null, where lists
// have no given length.
func appendList(b, values []byte, dense bool) []byte {
	from := len(b)
	b = append(append(append(b, '['), values...), ']')
	if !dense {
		return b
	}
	list := slices.Clone(b[from:])
	b = append(b[:from], '[')
	_ = Items(list, func(item []byte) error {
		if string(item) != "null" {
			if len(b) > from+1 {
				b = append(b, ',')
			}
			b = append(b, item...)
		}
		return nil
	})
	return append(b, ']')
}

// vectors makes rows {"x":[...]}.
func (in *Inputs) vectors(r *Rows, cols []given, n int) error {
	if len(cols) != 1 || cols[0].at >= 0 { // a column for each feature
		order := make([]*given, len(in.columns))
		for k := range cols {
			if cols[k].at < 0 {
				return errors.New("x comes with other inputs")
			}
			order[cols[k].at] = &cols[k]
		}
		for j, c := range order {
			if c == nil {
				return fmt.Errorf("there is no %q, which the model needs", in.columns[j].name)
			}
		}
		for i := range n {
			r.buf = append(r.buf, `{"x":[`...)
			for j, c := range order {
				if j > 0 {
					r.buf = append(r.buf, ',')
				}
				r.buf = append(r.buf, c.cells[i]...)
			}
			r.buf = append(r.buf, "]}"...)
			r.end()
		}
		return nil
	}
	for _, x := range cols[0].cells {
		r.buf = append(append(append(r.buf, `{"x":[`...), x...), "]}"...)
		r.end()
	}
	return nil
}
