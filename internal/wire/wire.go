// Package wire connects package codec with wire formats of events that need a schema
// to be read, such as Avro. A format registers itself when it is imported, so a
// program contains only the formats that it imports. Package codec looks up the schema
// of a record and encodes the features; the format only reads fields into cells.
package wire

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/stream"
)

// Schema has the fields of codec.WrittenSchema, which describes them.
type Schema struct {
	Type        string
	Text        string
	References  []string
	Descriptors []byte
	Message     string
}

// Format is a wire format of events.
type Format struct {
	// Name is the name of the codec, such as avro.
	Name string
	// Type is the type of its schemas in registries, such as AVRO.
	Type string
	// Paths says that the frame of a record holds the path of its message in the
	// schema.
	Paths bool
	// Plan returns a plan for records of a schema. path is the path of the message,
	// top says which fields are wanted. It is called once per schema.
	Plan func(s *Schema, path []int, top Level) (Plan, error)
}

// Plan reads records of one schema. It is safe for concurrent use.
type Plan interface {
	// Read reads a record into r.Row, all of whose cells are absent. Cells may refer
	// to data. Errors are *stream.FieldError.
	Read(r *Reader, data []byte) error
}

// The results of Level.Cell for fields without a cell.
const (
	Passed   = -1 // known but not used
	Unlisted = -2 // unknown: to be counted in Row.Unlisted
)

// Level says which fields of one object are wanted.
type Level interface {
	// Cell returns the index of the cell for the field called key, or Passed, or
	// Unlisted.
	Cell(key string) int
	// Known reports whether the schema of the events lists the field, or a field
	// inside it.
	Known(key string) bool
	// In returns the level of the object in a field, or nil if nothing in it is
	// wanted.
	In(key string) Level
	// Path returns the path of a field for error messages.
	Path(key string) string
}

// Reader receives the cells of one record.
type Reader struct {
	Row events.Row
	// IDCell is the index of the cell with the identifier. A plan sets IDText to its
	// digits if it is an integer, because a float64 does not hold all of them.
	IDCell int
	IDText []byte
}

// ReadMap reads a map with the given keys, whose level is l: each value is like a field, which read
// puts into a cell. path is that of the field.
func (r *Reader) ReadMap(l Level, keys iter.Seq[string], read func(c *events.Cell, key, path string) error) error {
	for _, key := range slices.Sorted(keys) { // so that the first error does not vary
		cell := l.Cell(key)
		if cell == Unlisted {
			r.Row.Unlisted++
		}
		if cell < 0 {
			continue
		}
		for len(r.Row.Cells) <= cell { // where all fields are wanted
			r.Row.Cells = append(r.Row.Cells, events.Cell{})
		}
		if err := read(&r.Row.Cells[cell], key, l.Path(key)); err != nil {
			return err
		}
	}
	return nil
}

// MaxDepth bounds how deep records are read.
const MaxDepth = 64

var formats = map[string]Format{}

// Register adds a format. It must be called from an init function, and panics if the
// name is taken.
func Register(f Format) {
	if _, ok := formats[f.Name]; ok {
		panic("wire: format " + f.Name + " is registered twice")
	}
	formats[f.Name] = f
}

// Lookup returns the format called name.
func Lookup(name string) (Format, bool) {
	f, ok := formats[name]
	return f, ok
}

// Fail returns a *stream.FieldError about a field.
func Fail(reason stream.Reason, field, format string, args ...any) error {
	return &stream.FieldError{Stage: stream.StageDecode, Reason: reason, Field: field, Err: fmt.Errorf(format, args...)}
}

// Quoted returns at most 32 bytes of b for an error message.
func Quoted(b []byte) string {
	if len(b) > 32 {
		return strconv.QuoteToASCII(string(b[:29])) + "..."
	}
	return strconv.QuoteToASCII(string(b))
}

// SetText sets a cell to a text, which must be UTF-8.
func SetText(c *events.Cell, b []byte, field string) error {
	if !utf8.Valid(b) {
		return Fail(stream.ReasonSyntax, field, "%s is not UTF-8", Quoted(b))
	}
	c.Kind, c.Text = events.Text, b
	return nil
}
