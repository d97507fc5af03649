package registry

import (
	"encoding/binary"
	"math"
	"math/big"
	"strconv"

	"github.com/streamsvm/streamsvm/internal/event"
	"github.com/streamsvm/streamsvm/internal/wire"
	"github.com/streamsvm/streamsvm/stream"
)

// An avroPlan says what becomes of a value of a type.
type avroPlan struct {
	typ *avroType
	// cell is the cell it goes into, wire.Passed or wire.Unlisted.
	cell  int
	quick avroQuick
	sub   []avroPlan // of the fields of a record, the branches of a union; may be nil
	path  string     // for errors
}

// avroQuick says of a value how record reads it at once, if it can.
type avroQuick uint8

const (
	avroSlow avroQuick = iota
	quickNull
	quickBool
	quickLong
	quickFloat
	quickDouble
	quickEnum
	quickText
	quickPassed // a text that goes into no cell
	quickUnion
)

// quicks are those of values that go into a cell.
var quicks = [avroRecord + 1]avroQuick{
	avroNull: quickNull, avroBool: quickBool, avroLong: quickLong, avroFloat: quickFloat, avroDouble: quickDouble, avroString: quickText, avroEnum: quickEnum,
}

// newAvroPlan returns the plan for records of a schema.
func newAvroPlan(s *wire.Schema, _ []int, top wire.Level) (wire.Plan, error) {
	t, err := newAvroType(s)
	if err != nil {
		return nil, err
	}
	p := &avroPlan{typ: t, cell: wire.Passed}
	p.fields(top)
	return p, nil
}

// fields plans the fields of a record.
func (p *avroPlan) fields(l wire.Level) {
	p.sub = make([]avroPlan, len(p.typ.fields))
	for i, f := range p.typ.fields {
		q := &p.sub[i]
		q.path = l.Path(f.name)
		cell := wire.Passed
		if f.typ.leaf(l.In(f.name) != nil) {
			cell = l.Cell(f.name)
		} else if !l.Known(f.name) {
			cell = wire.Unlisted
		}
		q.value(f.typ, cell, l.In(f.name))
	}
}

// leaf reports whether values of a type, or some of them, go into a cell; inside
// says that something in objects is wanted.
func (t *avroType) leaf(inside bool) bool {
	switch t.kind {
	case avroRecord:
		return !inside
	case avroUnion:
		for _, b := range t.branches {
			if b.kind != avroNull && b.leaf(inside) {
				return true
			}
		}
		return false
	}
	return true
}

// value plans a value that goes into a cell, or whose fields are those of in.
func (p *avroPlan) value(t *avroType, cell int, in wire.Level) {
	p.typ, p.cell = t, cell
	switch {
	case t.kind == avroRecord && in != nil:
		p.fields(in)
	case t.kind == avroUnion && (cell >= 0 || in != nil):
		p.sub = make([]avroPlan, len(t.branches))
		for i, b := range t.branches {
			p.sub[i].path = p.path
			p.sub[i].value(b, cell, in)
		}
	}
	switch {
	case p.sub != nil && t.kind == avroUnion:
		p.quick = quickUnion
	case p.sub == nil && cell >= 0:
		p.quick = quicks[t.kind]
	case p.sub == nil && cell == wire.Passed && t.kind == avroString:
		p.quick = quickPassed
	}
}

// Read implements wire.Plan.
func (p *avroPlan) Read(row *wire.Reader, data []byte) error {
	r := reader{Reader: row, b: data}
	err := r.record(p)
	if err == nil && r.at != len(data) {
		err = wire.Fail(stream.ReasonSyntax, "", "%d bytes follow the record", len(data)-r.at)
	}
	return err
}

func (r *reader) short(field string) error {
	return wire.Fail(stream.ReasonSyntax, field, "the record is cut off, or has another schema")
}

// record reads the fields of a record. What most values are is read here, without
// calls; value reads what else they are, and says what is wrong.
func (r *reader) record(p *avroPlan) error {
	if r.depth++; r.depth > wire.MaxDepth {
		return wire.Fail(stream.ReasonLimit, p.path, "the nesting is too deep")
	}
	b, at, cells, id := r.b, r.at, r.Row.Cells, r.IDCell
	for i := range p.sub {
		q := &p.sub[i]
		if q.quick == quickUnion && at < len(b) && b[at]&0x81 == 0 && int(b[at]>>1) < len(q.sub) {
			q = &q.sub[b[at]>>1]
			at++
		}
		switch q.quick {
		case quickNull:
			cells[q.cell].Kind = event.Null
			continue
		case quickBool:
			if at < len(b) && b[at] <= 1 {
				c := &cells[q.cell]
				c.Kind, c.Num = event.Bool, float64(b[at])
				at++
				continue
			}
		case quickLong:
			if u, n := shortVarint(b[at:]); n > 0 && q.cell != id {
				c := &cells[q.cell]
				c.Kind, c.Num = event.Number, float64(int64(u>>1)^-int64(u&1))
				at += n
				continue
			}
		case quickEnum:
			if at < len(b) && b[at]&0x81 == 0 && int(b[at]>>1) < len(q.typ.symbols) {
				c := &cells[q.cell]
				c.Kind, c.Text = event.Text, q.typ.symbols[b[at]>>1]
				at++
				continue
			}
		case quickFloat:
			if len(b)-at >= 4 {
				c := &cells[q.cell]
				c.Kind, c.Num = event.Number, float64(math.Float32frombits(binary.LittleEndian.Uint32(b[at:])))
				at += 4
				continue
			}
		case quickDouble:
			if len(b)-at >= 8 {
				c := &cells[q.cell]
				c.Kind, c.Num = event.Number, math.Float64frombits(binary.LittleEndian.Uint64(b[at:]))
				at += 8
				continue
			}
		case quickText, quickPassed:
			if at == len(b) || b[at]&0x81 != 0 || len(b)-at <= int(b[at]>>1) {
				break
			}
			text := b[at+1 : at+1+int(b[at]>>1)]
			if q.quick == quickPassed {
				at += 1 + len(text)
				continue
			}
			if wire.ASCII(text) {
				c := &cells[q.cell]
				c.Kind, c.Text = event.Text, text
				at += 1 + len(text)
				continue
			}
		}
		r.at = at
		if err := r.value(q); err != nil {
			return err
		}
		at = r.at
	}
	r.at = at
	r.depth--
	return nil
}

// value reads a value as planned.
func (r *reader) value(p *avroPlan) error {
	if p.sub != nil {
		if p.typ.kind == avroRecord {
			return r.record(p)
		}
		i, ok := r.long()
		if !ok || i < 0 || i >= int64(len(p.sub)) {
			return r.short(p.path)
		}
		return r.value(&p.sub[i])
	}
	if p.cell < 0 {
		if p.cell == wire.Unlisted {
			r.Row.Unknown++
		}
		if !r.skip(p.typ) {
			return r.short(p.path)
		}
		return nil
	}
	return r.scalar(p.typ, &r.Row.Cells[p.cell], p)
}

// scalar reads a value into a cell: that of p, or an item of a list.
func (r *reader) scalar(t *avroType, c *event.Cell, p *avroPlan) error {
	switch t.kind {
	case avroNull:
		c.Kind = event.Null
		return nil
	case avroBool:
		if r.at >= len(r.b) || r.b[r.at] > 1 {
			return r.short(p.path)
		}
		c.Kind, c.Num = event.Bool, float64(r.b[r.at])
		r.at++
		return nil
	case avroLong, avroTime:
		v, ok := r.long()
		if !ok {
			return r.short(p.path)
		}
		c.Kind, c.Num = event.Number, float64(v)
		if t.kind == avroTime {
			c.Kind, c.Num = event.Time, float64(v)*t.times/t.through
		}
		if p.cell == r.IDCell {
			r.IDText = strconv.AppendInt(r.IDText[:0], v, 10)
		}
		return nil
	case avroFloat:
		if len(r.b)-r.at < 4 {
			return r.short(p.path)
		}
		c.Kind, c.Num = event.Number, float64(math.Float32frombits(binary.LittleEndian.Uint32(r.b[r.at:])))
		r.at += 4
		return nil
	case avroDouble:
		if len(r.b)-r.at < 8 {
			return r.short(p.path)
		}
		c.Kind, c.Num = event.Number, math.Float64frombits(binary.LittleEndian.Uint64(r.b[r.at:]))
		r.at += 8
		return nil
	case avroString:
		b, ok := r.bytes()
		if !ok {
			return r.short(p.path)
		}
		return wire.SetText(c, b, p.path)
	case avroEnum:
		i, ok := r.long()
		if !ok || i < 0 || i >= int64(len(t.symbols)) {
			return r.short(p.path)
		}
		c.Kind, c.Text = event.Text, t.symbols[i]
		return nil
	case avroDecimal, avroFixedDecimal:
		b, ok := r.take(t.size, t.kind == avroDecimal)
		if !ok {
			return r.short(p.path)
		}
		decimalCell(c, b, t.scale)
		return nil
	case avroUnion: // in a list
		i, ok := r.long()
		if !ok || i < 0 || i >= int64(len(t.branches)) {
			return r.short(p.path)
		}
		return r.scalar(t.branches[i], c, p)
	case avroArray:
		if c == &r.Row.Cells[p.cell] {
			return r.list(t, c, p)
		}
	}
	c.Kind = event.Other
	if !r.skip(t) {
		return r.short(p.path)
	}
	return nil
}

// list reads an array.
func (r *reader) list(t *avroType, c *event.Cell, p *avroPlan) error {
	from := len(r.Row.Items)
	c.Kind = event.List
	for {
		n, _, ok := r.block(t.items.least)
		if !ok {
			return r.short(p.path)
		}
		if n == 0 {
			break
		}
		for ; n > 0; n-- {
			if len(r.Row.Items)-from > event.MaxArray {
				c.Kind = event.Other
				if t.items.least == 0 {
					break
				}
				if !r.skip(t.items) {
					return r.short(p.path)
				}
				continue
			}
			r.Row.Items = append(r.Row.Items, event.Cell{})
			if err := r.scalar(t.items, &r.Row.Items[len(r.Row.Items)-1], p); err != nil {
				return err
			}
		}
	}
	if len(r.Row.Items)-from > event.MaxArray {
		c.Kind = event.Other
	}
	if c.Kind == event.List {
		c.From, c.To = int32(from), int32(len(r.Row.Items))
	} else {
		r.Row.Items = r.Row.Items[:from]
	}
	return nil
}

// decimalCell sets c to a decimal: a whole number in two's complement,
// big-endian, over a power of ten.
func decimalCell(c *event.Cell, b []byte, scale int) {
	c.Kind = event.Number
	switch {
	case len(b) > 64 || scale > 300:
		c.Kind = event.Other
	case len(b) <= 8 && scale <= 22:
		v := int64(0)
		for i, d := range b {
			if i == 0 && d >= 0x80 {
				v = -1
			}
			v = v<<8 | int64(d)
		}
		c.Num = float64(v) / math.Pow10(scale)
	default:
		v := new(big.Int).SetBytes(b)
		if b[0] >= 0x80 {
			v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
		}
		c.Num, _ = new(big.Rat).SetFrac(v, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)).Float64()
	}
}

// long reads a zigzag varint.
func (r *reader) long() (int64, bool) {
	if r.at < len(r.b) && r.b[r.at] < 0x80 {
		u := uint64(r.b[r.at])
		r.at++
		return int64(u>>1) ^ -int64(u&1), true
	}
	u, n := binary.Uvarint(r.b[r.at:])
	if n <= 0 {
		return 0, false
	}
	r.at += n
	return int64(u>>1) ^ -int64(u&1), true
}

func (r *reader) bytes() ([]byte, bool) {
	n, ok := r.long()
	if !ok || n < 0 || n > int64(len(r.b)-r.at) {
		return nil, false
	}
	b := r.b[r.at : r.at+int(n)]
	r.at += int(n)
	return b, true
}

// take returns n bytes, or as many as a length before them says.
func (r *reader) take(n int, counted bool) ([]byte, bool) {
	if counted {
		return r.bytes()
	}
	if n > len(r.b)-r.at {
		return nil, false
	}
	b := r.b[r.at : r.at+n]
	r.at += n
	return b, true
}

// block reads the head of a block of items, of at least so many bytes each: how many there are, which is bounded
// by what follows unless items may have no bytes, and how long they are, -1 if that
// is not said.
func (r *reader) block(least int) (n int64, size int, ok bool) {
	n, ok = r.long()
	if !ok {
		return 0, 0, false
	}
	size = -1
	if n < 0 {
		s, ok := r.long()
		if n = -n; !ok || n < 0 || s < 0 || s > int64(len(r.b)-r.at) {
			return 0, 0, false
		}
		size = int(s)
	}
	if least > 0 && n > int64((len(r.b)-r.at)/least) {
		return 0, 0, false
	}
	return n, size, true
}

// skip passes over a value.
func (r *reader) skip(t *avroType) bool {
	switch t.kind {
	case avroNull:
		return true
	case avroLong, avroTime, avroEnum:
		_, ok := r.long()
		return ok
	case avroString, avroBytes, avroDecimal:
		_, ok := r.bytes()
		return ok
	case avroBool, avroFloat, avroDouble, avroFixed, avroFixedDecimal:
		_, ok := r.take(t.least, false)
		return ok
	}
	if r.depth++; r.depth > wire.MaxDepth {
		return false
	}
	ok := r.skipParts(t)
	r.depth--
	return ok
}

func (r *reader) skipParts(t *avroType) bool {
	switch t.kind {
	case avroUnion:
		i, ok := r.long()
		return ok && i >= 0 && i < int64(len(t.branches)) && r.skip(t.branches[i])
	case avroRecord:
		for i := range t.fields {
			if !r.skip(t.fields[i].typ) {
				return false
			}
		}
		return true
	}
	least := t.items.least
	if t.kind == avroMap {
		least++ // the key
	}
	for {
		n, size, ok := r.block(least)
		switch {
		case !ok:
			return false
		case n == 0:
			return true
		case size >= 0:
			r.at += size
			continue
		case least == 0:
			continue
		}
		for ; n > 0; n-- {
			if t.kind == avroMap {
				if _, ok := r.bytes(); !ok {
					return false
				}
			}
			if !r.skip(t.items) {
				return false
			}
		}
	}
}
