package registry

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/twmb/avro"

	"github.com/streamsvm/streamsvm/internal/wire"
)

// avroKind says how a value is written, and what becomes of it.
type avroKind uint8

const (
	avroNull avroKind = iota
	avroBool
	avroLong // int too
	avroTime // a long that is a time
	avroFloat
	avroDouble
	avroString
	avroBytes
	avroDecimal // bytes
	avroFixed
	avroFixedDecimal
	avroEnum
	avroArray
	avroMap
	avroUnion
	avroRecord
)

// An avroType is a type of a schema. Types may hold themselves.
type avroType struct {
	kind     avroKind
	fields   []avroField // of a record
	branches []*avroType // of a union
	items    *avroType   // of an array, the values of a map
	symbols  [][]byte    // of an enum
	size     int         // of a fixed
	// Milliseconds of a time are the number, times and through these.
	times, through float64
	scale          int // of a decimal
	// least is how many bytes a value has at least. Of those with 0 all have 0.
	least int
}

type avroField struct {
	name string
	typ  *avroType
}

// avroTypes makes the types of a schema.
type avroTypes struct {
	named map[string]*avroType
}

// longest bounds the sizes of types.
const avroLongest = 1 << 30

// newAvroType returns the type of records.
func newAvroType(s *wire.Schema) (*avroType, error) {
	var cache avro.SchemaCache
	for _, ref := range s.References {
		if _, err := cache.Parse(ref); err != nil {
			return nil, fmt.Errorf("a schema that it refers to: %w", err)
		}
	}
	schema, err := cache.Parse(s.Text)
	if err != nil {
		return nil, err
	}
	t, err := (&avroTypes{map[string]*avroType{}}).of(schema.Root(), "", "")
	if err != nil {
		return nil, err
	}
	if t.kind != avroRecord {
		return nil, errors.New("its values are no records")
	}
	return t, nil
}

// connectTimes are the names by which Debezium calls numbers that are times, and
// how many milliseconds they are.
var connectTimes = map[string][2]float64{
	"io.debezium.time.Timestamp": {1, 1}, "io.debezium.time.MicroTimestamp": {1, 1e3},
	"io.debezium.time.NanoTimestamp": {1, 1e6}, "io.debezium.time.Date": {86400e3, 1},
}

// logicalTimes are those of Avro.
var logicalTimes = map[string][2]float64{
	"date": {86400e3, 1}, "timestamp-millis": {1, 1}, "timestamp-micros": {1, 1e3}, "timestamp-nanos": {1, 1e6},
	"local-timestamp-millis": {1, 1}, "local-timestamp-micros": {1, 1e3}, "local-timestamp-nanos": {1, 1e6},
}

// of returns the type of a node within the namespace space. Logical is the
// logical type that its field has, where it has none itself.
func (ts *avroTypes) of(n *avro.SchemaNode, space, connect string) (*avroType, error) {
	if c, ok := n.Props["connect.name"].(string); ok {
		connect = c
	}
	t := &avroType{least: 1}
	switch n.Type {
	case "null":
		t.least = 0
	case "boolean":
		t.kind = avroBool
	case "int", "long":
		t.kind = avroLong
		per, ok := logicalTimes[n.LogicalType]
		if !ok && n.LogicalType == "" {
			per, ok = connectTimes[connect]
		}
		if ok {
			t.kind, t.times, t.through = avroTime, per[0], per[1]
		}
	case "float":
		t.kind, t.least = avroFloat, 4
	case "double":
		t.kind, t.least = avroDouble, 8
	case "string":
		t.kind = avroString
	case "bytes":
		t.kind, t.scale = avroBytes, n.Scale
		if n.LogicalType == "decimal" {
			t.kind = avroDecimal
		}
	case "array", "map":
		t.kind = avroArray
		inner := n.Items
		if n.Type == "map" {
			t.kind, inner = avroMap, n.Values
		}
		var err error
		t.items, err = ts.of(inner, space, "")
		return t, err
	case "union":
		t.kind = avroUnion
		for i := range n.Branches {
			b, err := ts.of(&n.Branches[i], space, connect)
			if err != nil {
				return nil, err
			}
			t.branches = append(t.branches, b)
		}
	case "fixed", "enum", "record", "error":
		return t, ts.define(t, n)
	default:
		return ts.refer(n, space)
	}
	return t, nil
}

// define makes a type that has a name.
func (ts *avroTypes) define(t *avroType, n *avro.SchemaNode) error {
	full := n.Name
	if n.Namespace != "" {
		full = n.Namespace + "." + n.Name
	}
	ts.named[full] = t
	switch n.Type {
	case "fixed":
		t.kind, t.size, t.least, t.scale = avroFixed, n.Size, n.Size, n.Scale
		if n.LogicalType == "decimal" {
			t.kind = avroFixedDecimal
		}
		if n.Size > avroLongest {
			return fmt.Errorf("%s has %d bytes", full, n.Size)
		}
	case "enum":
		t.kind = avroEnum
		for _, s := range n.Symbols {
			t.symbols = append(t.symbols, []byte(s))
		}
	default:
		t.kind, t.least = avroRecord, 0
		for i := range n.Fields {
			f := &n.Fields[i]
			connect, _ := f.Props["connect.name"].(string)
			inner, err := ts.of(&f.Type, n.Namespace, connect)
			if err != nil {
				return err
			}
			t.fields = append(t.fields, avroField{f.Name, inner})
			if t.least += inner.least; t.least > avroLongest {
				return fmt.Errorf("%s has %d bytes or more", full, t.least)
			}
		}
	}
	return nil
}

// refer returns the type that has been defined under a name, here or in a schema
// before.
func (ts *avroTypes) refer(n *avro.SchemaNode, space string) (*avroType, error) {
	if t := cmp.Or(ts.named[n.Type], ts.named[space+"."+n.Type]); t != nil {
		return t, nil
	}
	s, err := n.Schema()
	if err != nil {
		return nil, err
	}
	root := s.Root()
	switch root.Type {
	case "fixed", "enum", "record", "error":
		return ts.of(root, "", "")
	}
	return nil, fmt.Errorf("the type %s is not known", n.Type)
}
