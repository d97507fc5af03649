// Package events turns events, which are records of named fields, into vectors.
//
// A [Schema] lists the fields and how each is encoded. [Infer] infers it from the
// first events of a stream. It does not change afterwards: a feature means the same
// throughout the life of a model.
//
// A reader of some wire format puts the fields of a record into a [Row], one [Cell] for
// each field of the schema. [Schema.Encode] makes the vector, and lists in the row which
// values were missing, invalid or new. [Statistics] counts these, and compares the
// values with the events from which the schema was inferred.
//
// Everything but Statistics is a pure function of its arguments.
//
// The API may change.
package events

import "slices"

// Kind is the type of the value in a cell.
type Kind uint8

// The kinds of cells.
const (
	Absent Kind = iota // the event does not have the field
	Null
	Bool   // Num is 0 or 1
	Number // Num
	Text   // Text, in UTF-8
	Time   // Num, in milliseconds since 1970; only formats with a type for times have it
	List   // Items[From:To] of the row
	Other  // a value that gives no feature: an object, or a list of more than MaxArray
)

var kindNames = [...]string{"absent", "null", "a boolean", "a number", "a text", "a time", "a list", "an object"}

func (k Kind) String() string { return kindNames[k] }

// A Cell is the value of one field of one event.
type Cell struct {
	Kind     Kind
	From, To int32
	Num      float64
	// Text may share memory with the record.
	Text []byte
}

// A Row is an event with a cell for each field of a schema, in their order. It can be
// reused, by one goroutine at a time.
type Row struct {
	Cells []Cell
	Items []Cell // of all lists
	// Unlisted is the number of fields of the event that the schema does not list.
	Unlisted int
	// Issues are the issues that Encode found.
	Issues []Issue

	sums     []term
	gathered []gathered
}

// A gathered value is one of a field of objects in a list.
type gathered struct {
	field int
	cell  Cell
}

// Reset makes r a row of n absent cells.
func (r *Row) Reset(n int) {
	if cap(r.Cells) < n {
		r.Cells = make([]Cell, n)
	}
	r.Cells = r.Cells[:n]
	clear(r.Cells)
	r.Items, r.Issues, r.Unlisted, r.gathered = r.Items[:0], r.Issues[:0], 0, r.gathered[:0]
}

// Gather adds a value of a field of objects in a list. Gathered must be called at the end of the
// list, and before any other is read.
func (r *Row) Gather(field int, c Cell) { r.gathered = append(r.gathered, gathered{field, c}) }

// Gathered makes a list for each field of the values that were gathered. If a field has a value
// already, it returns its index, and otherwise -1.
func (r *Row) Gathered() (twice int) {
	twice = -1
	slices.SortStableFunc(r.gathered, func(a, b gathered) int { return a.field - b.field })
	for k := 0; k < len(r.gathered); {
		c := &r.Cells[r.gathered[k].field]
		if c.Kind != Absent {
			twice = r.gathered[k].field
		}
		from := len(r.Items)
		for field := r.gathered[k].field; k < len(r.gathered) && r.gathered[k].field == field; k++ {
			r.Items = append(r.Items, r.gathered[k].cell)
		}
		c.Kind, c.From, c.To = List, int32(from), int32(len(r.Items))
		if len(r.Items)-from > MaxArray {
			c.Kind = Other
		}
	}
	r.gathered = r.gathered[:0]
	return twice
}

// An Issue says that a value was not as the schema expects.
type Issue struct {
	Field int // index into Schema.Fields
	Kind  IssueKind
}

// IssueKind is the kind of an issue.
type IssueKind uint8

// The kinds of issues.
const (
	Missing IssueKind = iota // there is no value
	Unknown                  // the category is not listed
	Invalid                  // the value is of another type, or not finite
	Outside                  // the number is outside Field.Range
	issueKinds
)
