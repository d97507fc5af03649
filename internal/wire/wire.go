// Package wire is between package codec and the wire formats of events whose
// records do not hold their schema, such as Avro's. A format registers itself when
// it is imported, so that a program has only those that it imports; codec finds the
// schema of a record, and makes its features of what the format has read.
package wire

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/streamsvm/streamsvm/internal/event"
	"github.com/streamsvm/streamsvm/stream"
)

// Schema is what records have been written with: codec.WrittenSchema has the same
// fields, and says what they are.
type Schema struct {
	Type        string
	Text        string
	References  []string
	Descriptors []byte
	Message     string
}

// Format is a wire format of events.
type Format struct {
	// Name is that of the codec, such as avro.
	Name string
	// Type is what registries call its schemas, such as AVRO.
	Type string
	// Paths says that the frame of a record has the path of its message in the
	// schema.
	Paths bool
	// Plan returns how records of a schema are read; path is that of their message,
	// top says which fields are wanted. It is called once for each schema.
	Plan func(s *Schema, path []int, top Level) (Plan, error)
}

// Plan reads records of one schema, in any number of goroutines.
type Plan interface {
	// Read reads a record into r.Row, which is empty. Cells may refer to data. Its
	// errors are *stream.FieldError.
	Read(r *Reader, data []byte) error
}

// What Level.Cell returns for a field that goes into no cell.
const (
	Passed   = -1 // known, and not used
	Unlisted = -2 // counted in Row.Unknown
)

// Level says what is wanted of one object.
type Level interface {
	// Cell returns the cell of the row for the field called key, Passed or Unlisted.
	Cell(key string) int
	// Known reports whether the field is wanted, or anything in it.
	Known(key string) bool
	// In returns the level of the object that a field holds; nil if nothing in it
	// is wanted.
	In(key string) Level
	// Path returns the path of a field for error messages.
	Path(key string) string
}

// Reader takes what is read of one record.
type Reader struct {
	Row event.Row
	// IDCell is the cell of the identifier. IDText is its text if it is a whole
	// number, since not every one is a float64.
	IDCell int
	IDText []byte
}

// MaxDepth bounds how deep records are read.
const MaxDepth = 64

var formats = map[string]Format{}

// Register makes a format known under its name. It is for functions init, and
// panics if there is a format of that name.
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

// Fail returns a decoder's error about a field.
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
func SetText(c *event.Cell, b []byte, field string) error {
	if !ASCII(b) && !utf8.Valid(b) {
		return Fail(stream.ReasonSyntax, field, "%s is not UTF-8", Quoted(b))
	}
	c.Kind, c.Text = event.Text, b
	return nil
}

// ASCII reports whether a text is of ASCII, if it is short; false where it is long.
func ASCII(b []byte) bool {
	n := len(b)
	if n > 64 {
		return false
	}
	if n < 8 {
		return event.Short(b)&0x8080808080808080 == 0
	}
	all := binary.LittleEndian.Uint64(b[n-8:])
	for i := 8; i < n; i += 8 {
		all |= binary.LittleEndian.Uint64(b[i-8:])
	}
	return all&0x8080808080808080 == 0
}
