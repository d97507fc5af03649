// Package event turns events, records of named fields, into vectors.
//
// A Schema says which fields there are and what becomes of each. It is inferred
// from the first events of a stream, as a function of the set of them, and frozen
// from then on: a feature means the same for as long as a model lives. Package
// stream/codec reads the fields of a record into a Row, a cell for each field of
// the schema; Encode makes the vector of it. Both hold no state.
package event

// Kind says what a cell holds.
type Kind uint8

// The kinds of cells.
const (
	Absent Kind = iota // the event has no such field
	Null
	Bool   // Num is 0 or 1
	Number // Num
	Text   // Text, in UTF-8
	Time   // Num, milliseconds since 1970: only where the form knows times
	List   // Items From to To of the row
	Other  // what no feature is made of: an object, or too much
)

var kindNames = [...]string{"absent", "null", "a boolean", "a number", "a text", "a time", "a list", "an object"}

func (k Kind) String() string { return kindNames[k] }

// A Cell is the value of one field of one event.
type Cell struct {
	Kind     Kind
	From, To int32
	Num      float64
	// Text belongs to the record, or to the Row.
	Text []byte
}

// A Row holds an event as cells: one for each field that is looked for, in
// their order. It is memory to be used again.
type Row struct {
	Cells []Cell
	Items []Cell // of lists
	// Unknown counts the fields of the event that are not looked for.
	Unknown int
	sums    []hashed
}

// Reset makes the row one of n cells, all absent.
func (r *Row) Reset(n int) {
	if cap(r.Cells) < n {
		r.Cells = make([]Cell, n)
	}
	r.Cells = r.Cells[:n]
	clear(r.Cells)
	r.Items, r.Unknown = r.Items[:0], 0
}
