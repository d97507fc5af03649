package codec

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/stream"
)

// SchemaID identifies a schema of a registry. It is comparable.
type SchemaID struct {
	// Number is the id of the schema, unless it has a GUID.
	Number uint32
	// GUID of the schema, unless it is all 0.
	GUID [16]byte
}

// String returns 17, or 9b2c5c1e-7d3f-4a51-8a05-2d0d0c9f6a11.
func (id SchemaID) String() string {
	if id.GUID == [16]byte{} {
		return strconv.FormatUint(uint64(id.Number), 10)
	}
	h := hex.EncodeToString(id.GUID[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// ParseSchemaID parses the result of String.
func ParseSchemaID(s string) (id SchemaID, err error) {
	if n, err := strconv.ParseUint(s, 10, 32); err == nil {
		return SchemaID{Number: uint32(n)}, nil
	}
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(b) != 16 {
		return id, fmt.Errorf("%q is not the id of a schema", s)
	}
	copy(id.GUID[:], b)
	return id, nil
}

// The types of schemas, as registries call them.
const (
	AvroSchema     = "AVRO"
	ProtobufSchema = "PROTOBUF"
)

// WrittenSchema is the schema that records were written with.
type WrittenSchema struct {
	// Type is AvroSchema, ProtobufSchema or another that no codec reads.
	Type string
	// Text of an Avro schema, and the texts of the schemas that it refers to, ordered so
	// that none refers to a later one.
	Text       string
	References []string
	// Descriptors of a Protobuf schema: a FileDescriptorSet, whose last file is
	// the file of the schema.
	Descriptors []byte
	// Message is the full name of the message type, if records do not say which it is.
	Message string
}

// Schemas resolves the schemas that records refer to.
type Schemas interface {
	// Schema returns the schema with an id, which never changes. If it cannot be looked up,
	// Schema waits until ctx ends. A *SchemaError says that there is none, or that it is
	// invalid, and records are refused; any other error ends the stream.
	Schema(ctx context.Context, id SchemaID) (*WrittenSchema, error)
}

// SchemaError is the reason why records with a schema cannot be read.
type SchemaError struct {
	ID  SchemaID
	Err error
}

func (e *SchemaError) Error() string { return fmt.Sprintf("schema %s: %v", e.ID, e.Err) }

func (e *SchemaError) Unwrap() error { return e.Err }

// ErrNoSchemas says that records refer to schemas, but Options.Schemas is nil.
var ErrNoSchemas = errors.New("no schema registry is given")

// A frame comes before the data of a record. It has the id of the schema, and for Protobuf
// the message type within its file.
//
//	0, id in 4 bytes, big-endian                     in the value, before the data
//	1, GUID in 16 bytes                              in the header __value_schema_id
//
// For Protobuf the path of the message follows: the count of numbers, and the
// numbers, as zigzag varints; or a single 0 for the first message of the file.
type frame struct {
	id SchemaID
	// path, as it is written; empty if the form has none.
	path []byte
}

const schemaHeader = "__value_schema_id"

var errFrame = errors.New("want 0 and the id of a schema of a registry")

// unframe returns the frame of a value and the data behind it. The frame is in
// head, if that is not nil. paths says that frames contain the path of a message.
func unframe(head, value []byte, paths bool) (f frame, data []byte, err error) {
	b := value
	if head != nil {
		b = head
	}
	switch {
	case len(b) >= 5 && b[0] == 0:
		f.id.Number = binary.BigEndian.Uint32(b[1:])
		b = b[5:]
	case len(b) >= 17 && b[0] == 1:
		copy(f.id.GUID[:], b[1:])
		b = b[17:]
	default:
		return f, nil, fail(stream.StageDecode, stream.ReasonSyntax, "", errFrame)
	}
	if paths {
		n, err := pathLength(b)
		if err != nil {
			return f, nil, err
		}
		f.path, b = b[:n], b[n:]
	}
	if head != nil {
		b = value
	}
	return f, b, nil
}

var errPath = errors.New("the path of the message is cut off, or too long")

// maxPath bounds how deeply message definitions are nested.
const maxPath = 32

// pathLength returns the length in bytes of the path at the beginning of b.
func pathLength(b []byte) (int, error) {
	if len(b) > 0 && b[0] == 0 {
		return 1, nil
	}
	n, at := binary.Varint(b)
	if at <= 0 || n < 0 || n > maxPath {
		return 0, fail(stream.StageDecode, stream.ReasonSyntax, "", errPath)
	}
	for range n {
		_, w := binary.Varint(b[at:])
		if w <= 0 {
			return 0, fail(stream.StageDecode, stream.ReasonSyntax, "", errPath)
		}
		at += w
	}
	return at, nil
}

// numbers returns the numbers of a path.
func (f *frame) numbers() []int {
	if len(f.path) == 0 || f.path[0] == 0 {
		return []int{0}
	}
	n, at := binary.Varint(f.path)
	list := make([]int, 0, n)
	for range n {
		v, w := binary.Varint(f.path[at:])
		list, at = append(list, int(v)), at+w
	}
	return list
}
