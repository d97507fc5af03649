package registry

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/streamsvm/streamsvm/internal/event"
	"github.com/streamsvm/streamsvm/internal/wire"
	"github.com/streamsvm/streamsvm/stream"
)

// Read implements wire.Plan.
func (p *protoPlan) Read(row *wire.Reader, data []byte) error {
	r := reader{Reader: row}
	if err := r.message(p, data); err != nil {
		return err
	}
	if r.scattered {
		r.gather()
	}
	return nil
}

// message reads a message. What most values are is read here, without calls;
// field reads what else they are, and says what is wrong.
func (r *reader) message(p *protoPlan, b []byte) error {
	if r.depth++; r.depth > wire.MaxDepth {
		return wire.Fail(stream.ReasonLimit, "", "the nesting is too deep")
	}
	cells := r.Row.Cells
	for at := 0; at < len(b); {
		if b[at] < 0x80 && p.tags[b[at]] > 0 {
			f := &p.fields[p.tags[b[at]]-1]
			v := at + 1 // where the value begins
			switch f.quick {
			case protoDouble:
				if len(b)-v >= 8 {
					c := &cells[f.cell]
					c.Kind, c.Num = event.Number, math.Float64frombits(binary.LittleEndian.Uint64(b[v:]))
					at = v + 8
					continue
				}
			case protoFloat:
				if len(b)-v >= 4 {
					c := &cells[f.cell]
					c.Kind, c.Num = event.Number, float64(math.Float32frombits(binary.LittleEndian.Uint32(b[v:])))
					at = v + 4
					continue
				}
			case protoVarint:
				u, n := uint64(0), 0
				if v < len(b) && b[v] < 0x80 {
					u, n = uint64(b[v]), 1
				} else {
					u, n = shortVarint(b[v:])
				}
				if n > 0 {
					c := &cells[f.cell]
					c.Kind = event.Number
					r.varint(f, c, u)
					at = v + n
					continue
				}
			case protoText, protoPassed:
				if v == len(b) || b[v] >= 0x80 || len(b)-v <= int(b[v]) {
					break
				}
				text := b[v+1 : v+1+int(b[v])]
				if f.quick == protoPassed {
					at = v + 1 + len(text)
					continue
				}
				if wire.ASCII(text) {
					c := &cells[f.cell]
					c.Kind, c.Text = event.Text, text
					at = v + 1 + len(text)
					continue
				}
			}
		}
		n, err := r.tagged(p, b[at:])
		if err != nil {
			return err
		}
		at += n
	}
	for i := range p.zeros {
		z := &p.zeros[i]
		if c := &r.Row.Cells[z.cell]; c.Kind == event.Absent {
			z.typ.zero(c)
			if z.cell == r.IDCell && c.Kind == event.Number {
				r.IDText = append(r.IDText[:0], '0')
			}
		}
	}
	r.depth--
	return nil
}

// tagged reads a tag and a value, and returns how many bytes they have.
func (r *reader) tagged(p *protoPlan, b []byte) (int, error) {
	number, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return 0, r.malformed("", n)
	}
	f := p.find(number)
	if f == nil || f.cell < 0 && f.sub == nil {
		if f == nil || f.cell == wire.Unlisted {
			r.Row.Unknown++
		}
		k := protowire.ConsumeFieldValue(number, typ, b[n:])
		if k < 0 {
			return 0, r.malformed("", k)
		}
		return n + k, nil
	}
	k, err := r.field(f, typ, b[n:])
	return n + k, err
}

func (r *reader) malformed(field string, code int) error {
	return wire.Fail(stream.ReasonSyntax, field, "the record is cut off, or no Protobuf: %v", protowire.ParseError(code))
}

// field reads a value of a field, and returns how many bytes it has.
func (r *reader) field(f *protoField, typ protowire.Type, b []byte) (int, error) {
	want := wireOf(f.kind)
	packed := f.list && typ == protowire.BytesType && want != typ
	if typ != want && !packed {
		return 0, wire.Fail(stream.ReasonType, f.path, "wire type %d, where the schema has %s", typ, f.kind)
	}
	switch {
	case f.sub != nil && want == protowire.BytesType:
		inner, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return 0, r.malformed(f.path, n)
		}
		return n, r.message(f.sub, inner)
	case f.sub != nil:
		inner, n := protowire.ConsumeGroup(f.number, b)
		if n < 0 {
			return 0, r.malformed(f.path, n)
		}
		return n, r.message(f.sub, inner)
	case !f.list:
		return r.proto(f, &r.Row.Cells[f.cell], b)
	case !packed:
		var item event.Cell
		n, err := r.proto(f, &item, b)
		if err == nil {
			r.item(f, item)
		}
		return n, err
	}
	inner, n := protowire.ConsumeBytes(b)
	if n < 0 {
		return 0, r.malformed(f.path, n)
	}
	if len(inner) == 0 && r.Row.Cells[f.cell].Kind == event.Absent {
		return n, nil
	}
	for len(inner) > 0 {
		var item event.Cell
		k, err := r.proto(f, &item, inner)
		if err != nil {
			return 0, err
		}
		r.item(f, item)
		inner = inner[k:]
	}
	return n, nil
}

// mostScattered bounds the items of lists that come in turn.
const mostScattered = 64 * event.MaxArray

// item adds an item to a list. Items of several lists may come in turn.
func (r *reader) item(f *protoField, item event.Cell) {
	c := &r.Row.Cells[f.cell]
	at := int32(len(r.Row.Items))
	switch {
	case c.Kind == event.Absent:
		c.Kind, c.From, c.To = event.List, at, at
	case c.Kind != event.List:
		return
	case c.To != at:
		r.scattered = true
	}
	if r.scattered && len(r.Row.Items) >= mostScattered {
		c.Kind = event.Other
		return
	}
	item.From = int32(f.cell)
	r.Row.Items = append(r.Row.Items, item)
	c.To = at + 1
	// Of scattered lists From is not where they begin, so their lengths are found
	// out by gather.
	if !r.scattered && c.To-c.From > event.MaxArray {
		c.Kind, r.Row.Items = event.Other, r.Row.Items[:c.From]
	}
}

// gather puts the items of each list together.
func (r *reader) gather() {
	slices.SortStableFunc(r.Row.Items, func(a, b event.Cell) int { return int(a.From) - int(b.From) })
	items := r.Row.Items
	for i := 0; i < len(items); {
		k := i
		for k < len(items) && items[k].From == items[i].From {
			k++
		}
		c := &r.Row.Cells[items[i].From]
		if c.Kind == event.List {
			c.From, c.To = int32(i), int32(k)
			if k-i > event.MaxArray {
				c.Kind = event.Other
			}
		}
		i = k
	}
}

// proto reads a value into a cell, and returns how many bytes it has.
func (r *reader) proto(f *protoField, c *event.Cell, b []byte) (n int, err error) {
	c.Kind = event.Number
	switch f.kind {
	case protoreflect.DoubleKind:
		var v uint64
		v, n = protowire.ConsumeFixed64(b)
		c.Num = math.Float64frombits(v)
	case protoreflect.FloatKind:
		var v uint32
		v, n = protowire.ConsumeFixed32(b)
		c.Num = float64(math.Float32frombits(v))
	case protoreflect.Fixed32Kind:
		var v uint32
		v, n = protowire.ConsumeFixed32(b)
		r.whole(f, c, int64(v))
	case protoreflect.Sfixed32Kind:
		var v uint32
		v, n = protowire.ConsumeFixed32(b)
		r.whole(f, c, int64(int32(v)))
	case protoreflect.Fixed64Kind:
		var v uint64
		v, n = protowire.ConsumeFixed64(b)
		r.unsigned(f, c, v)
	case protoreflect.Sfixed64Kind:
		var v uint64
		v, n = protowire.ConsumeFixed64(b)
		r.whole(f, c, int64(v))
	case protoreflect.StringKind:
		var v []byte
		if v, n = protowire.ConsumeBytes(b); n >= 0 {
			return n, wire.SetText(c, v, f.path)
		}
	case protoreflect.MessageKind:
		var v []byte
		if v, n = protowire.ConsumeBytes(b); n >= 0 && f.time {
			return n, r.timestamp(f, c, v)
		}
		c.Kind = event.Other
	case protoreflect.BytesKind:
		_, n = protowire.ConsumeBytes(b)
		c.Kind = event.Other
	case protoreflect.GroupKind:
		_, n = protowire.ConsumeGroup(f.number, b)
		c.Kind = event.Other
	default:
		var v uint64
		if len(b) > 0 && b[0] < 0x80 {
			v, n = uint64(b[0]), 1
		} else {
			v, n = protowire.ConsumeVarint(b)
		}
		r.varint(f, c, v)
	}
	if n < 0 {
		return 0, r.malformed(f.path, n)
	}
	return n, nil
}

// varint sets a cell to what v is.
func (r *reader) varint(f *protoField, c *event.Cell, v uint64) {
	switch f.kind {
	case protoreflect.BoolKind:
		c.Kind, c.Num = event.Bool, 0
		if v != 0 {
			c.Num = 1
		}
	case protoreflect.EnumKind:
		f.enum(c, protoreflect.EnumNumber(v))
	case protoreflect.Int32Kind:
		r.whole(f, c, int64(int32(v)))
	case protoreflect.Int64Kind:
		r.whole(f, c, int64(v))
	case protoreflect.Sint32Kind:
		r.whole(f, c, int64(int32(protowire.DecodeZigZag(v&math.MaxUint32))))
	case protoreflect.Sint64Kind:
		r.whole(f, c, protowire.DecodeZigZag(v))
	case protoreflect.Uint32Kind:
		r.unsigned(f, c, uint64(uint32(v)))
	default:
		r.unsigned(f, c, v)
	}
}

func (r *reader) whole(f *protoField, c *event.Cell, v int64) {
	c.Num = float64(v)
	if f.cell == r.IDCell {
		r.IDText = strconv.AppendInt(r.IDText[:0], v, 10)
	}
}

func (r *reader) unsigned(f *protoField, c *event.Cell, v uint64) {
	c.Num = float64(v)
	if f.cell == r.IDCell {
		r.IDText = strconv.AppendUint(r.IDText[:0], v, 10)
	}
}

// enum sets a cell to the name of a value, or to its number if it has none.
func (f *protoField) enum(c *event.Cell, v protoreflect.EnumNumber) {
	i := int(v)
	if i < 0 || i >= len(f.names) || f.names[i].number != v {
		var ok bool
		i, ok = slices.BinarySearchFunc(f.names, v, func(n protoName, v protoreflect.EnumNumber) int { return cmp.Compare(n.number, v) })
		if !ok {
			c.Kind, c.Num = event.Number, float64(v)
			return
		}
	}
	c.Kind, c.Text = event.Text, f.names[i].text
}

// zero sets a cell to what a field is that is not written.
func (f *protoField) zero(c *event.Cell) {
	c.Num = 0
	switch f.kind {
	case protoreflect.BoolKind:
		c.Kind = event.Bool
	case protoreflect.StringKind:
		c.Kind, c.Text = event.Text, nil
	case protoreflect.EnumKind:
		f.enum(c, 0)
	default:
		c.Kind = event.Number
	}
}

// timestamp reads seconds and nanoseconds.
func (r *reader) timestamp(f *protoField, c *event.Cell, b []byte) error {
	var parts [2]int64
	for len(b) > 0 {
		number, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return r.malformed(f.path, n)
		}
		b = b[n:]
		if number <= 2 && typ == protowire.VarintType {
			var v uint64
			v, n = protowire.ConsumeVarint(b)
			parts[number-1] = int64(v)
		} else {
			n = protowire.ConsumeFieldValue(number, typ, b)
		}
		if n < 0 {
			return r.malformed(f.path, n)
		}
		b = b[n:]
	}
	c.Kind, c.Num = event.Time, float64(parts[0])*1000+float64(parts[1]/1_000_000)
	return nil
}
