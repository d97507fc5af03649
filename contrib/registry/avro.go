package registry

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/avro"

	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/internal/wire"
	"github.com/streamsvm/streamsvm/stream"
)

// An avroPlan reads records of one schema. The library decodes a record into a map;
// the plan maps its fields to cells.
type avroPlan struct {
	schema *avro.Schema
	fields []avroField
}

// An avroField is a field of a record.
type avroField struct {
	name   string
	path   string // for errors
	cell   int    // or wire.Passed, wire.Unlisted
	millis float64
	fields []avroField // of the records in it, if any of them is wanted
	items  []avroField // of the records in a list
	keys   wire.Level  // of a map
}

// newAvroPlan returns the plan for records of a schema.
func newAvroPlan(s *wire.Schema, _ []int, top wire.Level) (wire.Plan, error) {
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
	root := schema.Root()
	if !isRecord(root) {
		return nil, errors.New("its values are not records")
	}
	p := &avroPlan{schema: schema}
	p.fields, err = avroNames{}.records([]*avro.SchemaNode{root}, top)
	return p, err
}

func isRecord(n *avro.SchemaNode) bool { return n.Type == "record" || n.Type == "error" }

// avroNames caches the types of references, by the namespace and the name of the
// reference. Resolving one parses its schema, and a type may be used many times.
type avroNames map[[2]string]*avro.SchemaNode

// records plans the fields of records, one of which is the value.
func (ns avroNames) records(records []*avro.SchemaNode, l wire.Level) ([]avroField, error) {
	var list []avroField
	planned := map[string]bool{}
	for _, r := range records {
		for i := range r.Fields {
			f := &r.Fields[i]
			if planned[f.Name] {
				continue // two records of a union have a field of this name
			}
			planned[f.Name] = true
			field, err := ns.field(f, r.Namespace, l)
			if err != nil {
				return nil, err
			}
			list = append(list, field)
		}
	}
	return list, nil
}

func (ns avroNames) field(n *avro.SchemaField, space string, l wire.Level) (avroField, error) {
	f := avroField{name: n.Name, path: l.Path(n.Name), cell: wire.Passed}
	branches, err := ns.branches(nil, &n.Type, space)
	if err != nil {
		return f, err
	}
	inner, objects := l.In(n.Name), 0
	var records, items []*avro.SchemaNode
	for _, b := range branches {
		switch {
		case isRecord(b):
			records = append(records, b)
			objects++
		case b.Type == "map":
			f.keys = inner
			objects++
		}
		if b.Type == "array" && b.Items != nil {
			in, err := ns.branches(nil, b.Items, space)
			if err != nil {
				return f, err
			}
			items = append(items, slices.DeleteFunc(in, func(n *avro.SchemaNode) bool { return !isRecord(n) })...)
		}
		if f.millis == 0 && b.LogicalType == "" {
			f.millis = connectMillis[connectName(n, b)]
		}
	}
	switch {
	case inner == nil || objects < len(branches) || len(branches) == 0:
		f.cell = l.Cell(n.Name)
	case !l.Known(n.Name):
		f.cell = wire.Unlisted
	}
	if inner != nil && len(records) > 0 {
		f.fields, err = ns.records(records, inner)
	}
	if err == nil && inner != nil && len(items) > 0 {
		f.items, err = ns.records(items, inner)
	}
	return f, err
}

// branches appends the types that a value may have, except null: the branches of a union,
// or the type itself. References are resolved within the namespace space.
func (ns avroNames) branches(list []*avro.SchemaNode, n *avro.SchemaNode, space string) ([]*avro.SchemaNode, error) {
	var err error
	switch n.Type {
	case "null":
	case "union":
		for i := range n.Branches {
			if list, err = ns.branches(list, &n.Branches[i], space); err != nil {
				break
			}
		}
	case "boolean", "int", "long", "float", "double", "string", "bytes", "array", "map", "fixed", "enum", "record", "error":
		list = append(list, n)
	default:
		key := [2]string{space, n.Type}
		if ns[key] == nil {
			s, err := n.Schema()
			if err != nil {
				return list, err
			}
			ns[key] = s.Root()
		}
		return append(list, ns[key]), nil
	}
	return list, err
}

// connectMillis has the names by which Debezium marks numbers that are times, and their
// unit in milliseconds.
var connectMillis = map[string]float64{
	"io.debezium.time.Timestamp": 1, "io.debezium.time.MicroTimestamp": 1e-3,
	"io.debezium.time.NanoTimestamp": 1e-6, "io.debezium.time.Date": 86400e3,
}

// connectName returns the logical name that Kafka Connect gave to a type or its field.
func connectName(f *avro.SchemaField, n *avro.SchemaNode) string {
	for _, props := range []map[string]any{n.Props, f.Type.Props, f.Props} {
		if name, ok := props["connect.name"].(string); ok {
			return name
		}
	}
	return ""
}

// Read implements wire.Plan.
func (p *avroPlan) Read(r *wire.Reader, data []byte) error {
	var v any
	rest, err := p.schema.Decode(data, &v)
	if err != nil {
		field := ""
		if at := (*avro.SemanticError)(nil); errors.As(err, &at) {
			field = at.Field
		}
		return wire.Fail(stream.ReasonSyntax, field, "the record is cut off, or has another schema: %v", err)
	}
	if len(rest) > 0 {
		return wire.Fail(stream.ReasonSyntax, "", "%d bytes follow the record", len(rest))
	}
	record, _ := v.(map[string]any) // the schema is a record or a union of records
	return readRecord(r, p.fields, record)
}

func readRecord(r *wire.Reader, fields []avroField, record map[string]any) error {
	for i := range fields {
		f := &fields[i]
		v, ok := record[f.name]
		if !ok {
			continue // it belongs to another record of a union
		}
		if f.cell == wire.Unlisted {
			r.Row.Unlisted++
		}
		if inner, ok := v.(map[string]any); ok && f.fields != nil {
			if err := readRecord(r, f.fields, inner); err != nil {
				return err
			}
		} else if ok && f.keys != nil {
			err := r.ReadMap(f.keys, maps.Keys(inner), func(c *events.Cell, key, path string) error {
				return (&avroField{path: path}).scalar(c, inner[key])
			})
			if err != nil {
				return err
			}
		} else if f.cell >= 0 || f.items != nil {
			if err := f.read(r, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// gather reads the fields of a record in a list.
func gather(r *wire.Reader, fields []avroField, record map[string]any) error {
	for i := range fields {
		f := &fields[i]
		v := record[f.name]
		if inner, ok := v.(map[string]any); ok && f.fields != nil {
			if err := gather(r, f.fields, inner); err != nil {
				return err
			}
		} else if _, list := v.([]any); !list && f.cell >= 0 {
			var c events.Cell
			if err := f.scalar(&c, v); err != nil {
				return err
			}
			if c.Kind > events.Null {
				r.Row.Gather(f.cell, c)
			}
		}
	}
	return nil
}

// read puts a value into the cell of the field.
func (f *avroField) read(r *wire.Reader, v any) error {
	var passed events.Cell
	c := &passed
	if f.cell >= 0 {
		c = &r.Row.Cells[f.cell]
	}
	list, ok := v.([]any)
	if !ok {
		if f.cell == r.IDCell {
			r.IDText = wholeText(r.IDText[:0], v)
		}
		return f.scalar(c, v)
	}
	if len(list) > events.MaxArray {
		c.Kind = events.Other
		return nil
	}
	from := len(r.Row.Items)
	for _, v := range list {
		var item events.Cell
		if err := f.scalar(&item, v); err != nil {
			return err
		}
		if record, ok := v.(map[string]any); ok {
			if err := gather(r, f.items, record); err != nil {
				return err
			}
		}
		r.Row.Items = append(r.Row.Items, item)
	}
	if at := r.Row.Gathered(); at >= 0 {
		return wire.Fail(stream.ReasonDuplicate, f.path, "a field in its records has another value")
	}
	c.Kind, c.From, c.To = events.List, int32(from), int32(from+len(list))
	return nil
}

// wholeText appends the digits of v if it is an integer.
func wholeText(dst []byte, v any) []byte {
	switch v := v.(type) {
	case int32:
		return strconv.AppendInt(dst, int64(v), 10)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	}
	return dst
}

// scalar sets c to any value except a list.
func (f *avroField) scalar(c *events.Cell, v any) error {
	c.Kind = events.Number
	switch v := v.(type) {
	case nil:
		c.Kind = events.Null
	case bool:
		if c.Kind = events.Bool; v {
			c.Num = 1
		}
	case int32:
		f.whole(c, float64(v))
	case int64:
		f.whole(c, float64(v))
	case float32:
		c.Num = float64(v)
	case float64:
		c.Num = v
	case string:
		return wire.SetText(c, []byte(v), f.path)
	case time.Time:
		c.Kind, c.Num = events.Time, float64(v.Unix())*1e3+float64(v.Nanosecond())/1e6
	case *big.Rat:
		c.Num, _ = v.Float64()
	default: // bytes, a map, a record that is not wanted, a time of day
		c.Kind = events.Other
	}
	return nil
}

// whole sets c to an integer, which may be a time.
func (f *avroField) whole(c *events.Cell, v float64) {
	if c.Num = v; f.millis != 0 {
		c.Kind, c.Num = events.Time, v*f.millis
	}
}
