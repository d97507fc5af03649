// Package serve reads requests for predictions in the forms of others, and
// writes the answers: the Open Inference Protocol, version 2, and that of
// MLflow's servers. What a request asks for becomes rows, each an example in
// JSON, which is scored as if it had come alone; so what is said about records in
// JSON holds here too.
package serve

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/events"
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
	kind  events.Type
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
		in.columns = append(in.columns, column{f.Name, events.Type(f.Type), f.Width, append(AppendString(nil, f.Name), ':')})
	}
	return in, nil
}

// names lists the columns that the model looks at, a few of them where there are
// many.
func (in *Inputs) names() string {
	var list []string
	for i := range in.columns {
		if in.columns[i].kind != events.Ignore {
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

// A batch of rows is full with so many rows, or so many bytes.
const (
	batchRows  = 512
	batchBytes = 512 << 10
)

// Batches cuts rows into batches, so that a large request is never decoded as a
// whole. The memory of a batch is used again for the next one.
func Batches(rows iter.Seq[[]byte], memory *[][]byte) iter.Seq[[][]byte] {
	return func(yield func([][]byte) bool) {
		batch, size := (*memory)[:0], 0
		defer func() { *memory = batch }()
		for row := range rows {
			batch, size = append(batch, row), size+len(row)
			if len(batch) == batchRows || size >= batchBytes {
				if !yield(batch) {
					return
				}
				batch, size = batch[:0], 0
			}
		}
		if len(batch) > 0 {
			yield(batch)
		}
	}
}

// Rows are the rows of a request, in memory that is used again. The zero value
// is ready for use.
//
// The rows are examples in JSON. They are written a batch at a time, because they
// can take many times the bytes of the request: each names its fields. A first
// pass finds out whether they can be written; of a request of one batch it also
// is the last.
type Rows struct {
	write  func() error             // writes all rows, calling end after each
	yield  func(rows [][]byte) bool // takes a full batch; nil in the first pass
	n      int                      // rows written in this pass
	single bool                     // the batch in buf is the only one
	buf    []byte                   // the batch
	ends   []int                    // of its rows, in buf
	values [][]byte
}

// errStop ends writing when no more rows are wanted.
var errStop = errors.New("stop")

// check makes the first pass.
func (r *Rows) check(write func() error) error {
	r.write, r.yield, r.single = write, nil, true
	r.rewind()
	return write()
}

func (r *Rows) rewind() { r.n, r.buf, r.ends = 0, r.buf[:0], r.ends[:0] }

// end ends a row.
func (r *Rows) end() error {
	r.n++
	r.ends = append(r.ends, len(r.buf))
	if len(r.ends) < batchRows && len(r.buf) < batchBytes {
		return nil
	}
	r.single = false
	if r.yield != nil && !r.yield(r.batch()) {
		return errStop
	}
	r.buf, r.ends = r.buf[:0], r.ends[:0]
	return nil
}

// batch returns the rows that have been written since the last batch.
func (r *Rows) batch() [][]byte {
	r.values = r.values[:0]
	from := 0
	for _, end := range r.ends {
		r.values = append(r.values, r.buf[from:end:end])
		from = end
	}
	return r.values
}

// Batches returns the rows as examples in JSON. A batch is valid until the next
// one.
func (r *Rows) Batches() iter.Seq[[][]byte] {
	return func(yield func([][]byte) bool) {
		if !r.single {
			r.rewind()
			r.yield = yield
			if r.write() != nil {
				return
			}
		}
		if len(r.ends) > 0 {
			yield(r.batch())
		}
	}
}

// Len is how many rows there are.
func (r *Rows) Len() int { return r.n }

// Size is how many bytes of memory the rows take, besides the request itself.
func (r *Rows) Size() int { return cap(r.buf) + 8*cap(r.ends) + 24*cap(r.values) }

// Clear forgets the request.
func (r *Rows) Clear() {
	r.write, r.yield = nil, nil
	clear(r.values)
}

// given is a column of a request.
type given struct {
	at   int  // in the columns of the model; -1 for vectors
	list bool // each row has a list of values
	cells
}

// table writes rows of columns that all have n cells.
func (in *Inputs) table(r *Rows, given []given, n int) error {
	cols := slices.Clone(given) // whose cells are used up
	if !in.events {
		return in.vectors(r, cols, n)
	}
	for range n {
		r.buf = append(r.buf, '{')
		for k := range cols {
			if k > 0 {
				r.buf = append(r.buf, ',')
			}
			c := &in.columns[cols[k].at]
			r.buf = append(r.buf, c.key...)
			if !cols[k].list {
				r.buf = cols[k].next(r.buf)
				continue
			}
			from := len(r.buf)
			r.buf = append(cols[k].next(append(r.buf, '[')), ']')
			if c.kind == events.Tags {
				r.buf = dropNulls(r.buf, from)
			}
		}
		r.buf = append(r.buf, '}')
		if err := r.end(); err != nil {
			return err
		}
	}
	return nil
}

// dropNulls takes the nulls out of the list b[from:]: its length is not given, so
// they only fill up a row of a tensor.
func dropNulls(b []byte, from int) []byte {
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

// vectors writes rows {"x":[...]}.
func (in *Inputs) vectors(r *Rows, cols []given, n int) error {
	order := make([]*given, len(in.columns))
	if len(cols) == 1 && cols[0].at < 0 { // all values of a row together
		order = []*given{&cols[0]}
	} else {
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
	}
	for range n {
		r.buf = append(r.buf, `{"x":[`...)
		for j, c := range order {
			if j > 0 {
				r.buf = append(r.buf, ',')
			}
			r.buf = c.next(r.buf)
		}
		r.buf = append(r.buf, "]}"...)
		if err := r.end(); err != nil {
			return err
		}
	}
	return nil
}
