package codec

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	// Files that schemas refer to, and descriptors need not hold.
	_ "google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/emptypb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/streamsvm/streamsvm/internal/event"
	"github.com/streamsvm/streamsvm/stream"
)

// Messages that stand for something else than their fields.
const (
	protoTimestamp = "google.protobuf.Timestamp"
	protoWrapper   = "google.protobuf."
)

// wrappers are messages with a single field, value, that may be absent.
var wrappers = []protoreflect.FullName{
	protoWrapper + "DoubleValue", protoWrapper + "FloatValue", protoWrapper + "Int64Value", protoWrapper + "UInt64Value",
	protoWrapper + "Int32Value", protoWrapper + "UInt32Value", protoWrapper + "BoolValue", protoWrapper + "StringValue",
}

// A protoPlan says what becomes of the fields of a message.
type protoPlan struct {
	fields []protoField // by number
	small  []int16      // of small numbers: the place in fields, from 1 on
	tags   [0x80]uint8  // of tags of one byte: the place of a field that is read quickly, from 1 on
	// zeros are the values of fields that are not written where they are zero.
	zeros []protoZero
}

type protoZero struct {
	cell int
	typ  *protoField
}

type protoField struct {
	number protowire.Number
	kind   protoreflect.Kind
	quick  protoQuick
	cell   int
	list   bool
	time   bool       // a Timestamp
	sub    *protoPlan // of a message whose fields are wanted
	names  []protoName
	path   string
}

// protoQuick says of a field how message reads it at once, if it can.
type protoQuick uint8

const (
	protoSlow protoQuick = iota
	protoDouble
	protoFloat
	protoVarint
	protoText
	protoPassed // bytes that go into no cell
)

// quickly returns the quick way of a field.
func (f *protoField) quickly() protoQuick {
	switch {
	case f.cell == passed && f.sub == nil && wireOf(f.kind) == protowire.BytesType:
		return protoPassed
	case f.cell < 0 || f.sub != nil || f.list:
		return protoSlow
	}
	switch f.kind {
	case protoreflect.DoubleKind:
		return protoDouble
	case protoreflect.FloatKind:
		return protoFloat
	case protoreflect.StringKind:
		return protoText
	}
	if wireOf(f.kind) == protowire.VarintType {
		return protoVarint
	}
	return protoSlow
}

type protoName struct {
	number protoreflect.EnumNumber
	text   []byte
}

// fileSet finds the files that descriptors refer to.
type fileSet struct{ *protoregistry.Files }

func (s fileSet) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if f, err := s.Files.FindFileByPath(path); err == nil {
		return f, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

func (s fileSet) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if d, err := s.Files.FindDescriptorByName(name); err == nil {
		return d, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}

// message returns the message that records of a schema are: by its name, or by
// its path in the last file.
func (s *WrittenSchema) message(path []int) (protoreflect.MessageDescriptor, error) {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(s.Descriptors, &set); err != nil {
		return nil, errors.New("the descriptors are no FileDescriptorSet")
	}
	files := fileSet{new(protoregistry.Files)}
	var last protoreflect.FileDescriptor
	for _, f := range set.File {
		d, err := protodesc.NewFile(f, files)
		if err != nil {
			return nil, err
		}
		if err := files.RegisterFile(d); err != nil {
			return nil, err
		}
		last = d
	}
	if last == nil {
		return nil, errors.New("there are no descriptors")
	}
	if s.Message != "" {
		d, err := files.Files.FindDescriptorByName(protoreflect.FullName(s.Message))
		if m, ok := d.(protoreflect.MessageDescriptor); err == nil && ok {
			return m, nil
		}
		return nil, fmt.Errorf("there is no message %s", s.Message)
	}
	list := last.Messages()
	var m protoreflect.MessageDescriptor
	for _, i := range path {
		if i < 0 || i >= list.Len() {
			return nil, fmt.Errorf("there is no message at %v", path)
		}
		m = list.Get(i)
		list = m.Messages()
	}
	if m == nil {
		return nil, errors.New("the path of the message is empty")
	}
	return m, nil
}

// newProtoPlan returns the plan for records that are the message at a path.
func newProtoPlan(s *WrittenSchema, path []int, top *level) (plan, error) {
	m, err := s.message(path)
	if err != nil {
		return nil, err
	}
	return newMessagePlan(m, top), nil
}

// mostSmall is the number of fields that are found by a table.
const mostSmall = 1 << 10

func newMessagePlan(m protoreflect.MessageDescriptor, l *level) *protoPlan {
	p := new(protoPlan)
	for i := range m.Fields().Len() {
		d := m.Fields().Get(i)
		f := protoField{path: pathOf(l.prefix, string(d.Name()))}
		name := string(d.Name())
		message := d.Message()
		switch {
		case message == nil || d.IsList() || d.IsMap() || message.FullName() == protoTimestamp:
			f.cell = l.cell(name)
		case slices.Contains(wrappers, message.FullName()):
			f.cell = l.cell(name)
			inner := protoField{path: f.path, cell: f.cell}
			inner.of(message.Fields().ByNumber(1))
			f.sub = &protoPlan{fields: []protoField{inner}}
			f.sub.index()
			if f.cell >= 0 {
				f.sub.zeros = []protoZero{{f.cell, &f.sub.fields[0]}}
			}
		default:
			if in := l.in(name); in != nil {
				f.cell, f.sub = passed, newMessagePlan(message, in)
			} else {
				f.cell = l.cell(name)
			}
		}
		f.of(d)
		f.quick = f.quickly()
		p.fields = append(p.fields, f)
	}
	p.index()
	for i := range p.fields {
		f := &p.fields[i]
		d := m.Fields().ByNumber(f.number)
		if f.cell >= 0 && f.sub == nil && !f.list && !d.HasPresence() && d.Kind() != protoreflect.BytesKind {
			p.zeros = append(p.zeros, protoZero{f.cell, f})
		}
	}
	return p
}

// of takes over what the descriptor of a field says.
func (f *protoField) of(d protoreflect.FieldDescriptor) {
	f.number, f.kind, f.list = d.Number(), d.Kind(), d.IsList()
	f.time = d.Message() != nil && d.Message().FullName() == protoTimestamp
	if e := d.Enum(); e != nil {
		for i := range e.Values().Len() {
			v := e.Values().Get(i)
			f.names = append(f.names, protoName{v.Number(), []byte(v.Name())})
		}
		slices.SortStableFunc(f.names, func(a, b protoName) int { return cmp.Compare(a.number, b.number) })
	}
}

// index makes fields be found by their numbers.
func (p *protoPlan) index() {
	slices.SortFunc(p.fields, func(a, b protoField) int { return cmp.Compare(a.number, b.number) })
	for i := range p.fields {
		n := int(p.fields[i].number)
		if n >= mostSmall {
			break
		}
		for len(p.small) <= n {
			p.small = append(p.small, 0)
		}
		p.small[n] = int16(i + 1)
		if f := &p.fields[i]; n < 16 && f.quick != protoSlow {
			p.tags[n<<3|int(wireOf(f.kind))] = uint8(i + 1)
		}
	}
}

func (p *protoPlan) find(n protowire.Number) *protoField {
	if int(n) < len(p.small) {
		if i := p.small[n]; i > 0 {
			return &p.fields[i-1]
		}
		return nil
	}
	i, ok := slices.BinarySearchFunc(p.fields, n, func(f protoField, n protowire.Number) int { return cmp.Compare(f.number, n) })
	if !ok {
		return nil
	}
	return &p.fields[i]
}

// read implements plan.
func (p *protoPlan) read(r *wireReader, data []byte) error {
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
func (r *wireReader) message(p *protoPlan, b []byte) error {
	if r.depth++; r.depth > wireDepth {
		return r.fail(stream.ReasonLimit, "", "the nesting is too deep")
	}
	cells := r.row.Cells
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
				if ascii(text) {
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
		if c := &r.row.Cells[z.cell]; c.Kind == event.Absent {
			z.typ.zero(c)
			if z.cell == r.idAt && c.Kind == event.Number {
				r.idText = append(r.idText[:0], '0')
			}
		}
	}
	r.depth--
	return nil
}

// tagged reads a tag and a value, and returns how many bytes they have.
func (r *wireReader) tagged(p *protoPlan, b []byte) (int, error) {
	number, wire, n := protowire.ConsumeTag(b)
	if n < 0 {
		return 0, r.malformed("", n)
	}
	f := p.find(number)
	if f == nil || f.cell < 0 && f.sub == nil {
		if f == nil || f.cell == unlisted {
			r.row.Unknown++
		}
		k := protowire.ConsumeFieldValue(number, wire, b[n:])
		if k < 0 {
			return 0, r.malformed("", k)
		}
		return n + k, nil
	}
	k, err := r.field(f, wire, b[n:])
	return n + k, err
}

func (r *wireReader) malformed(field string, code int) error {
	return r.fail(stream.ReasonSyntax, field, "the record is cut off, or no Protobuf: %v", protowire.ParseError(code))
}

// wireOf returns how single values of a kind are written.
func wireOf(k protoreflect.Kind) protowire.Type {
	switch k {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	}
	return protowire.VarintType
}

// field reads a value of a field, and returns how many bytes it has.
func (r *wireReader) field(f *protoField, wire protowire.Type, b []byte) (int, error) {
	want := wireOf(f.kind)
	packed := f.list && wire == protowire.BytesType && want != wire
	if wire != want && !packed {
		return 0, r.fail(stream.ReasonType, f.path, "wire type %d, where the schema has %s", wire, f.kind)
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
		return r.proto(f, &r.row.Cells[f.cell], b)
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
	if len(inner) == 0 && r.row.Cells[f.cell].Kind == event.Absent {
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
func (r *wireReader) item(f *protoField, item event.Cell) {
	c := &r.row.Cells[f.cell]
	at := int32(len(r.row.Items))
	switch {
	case c.Kind == event.Absent:
		c.Kind, c.From, c.To = event.List, at, at
	case c.Kind != event.List:
		return
	case c.To != at:
		r.scattered = true
	}
	if r.scattered && len(r.row.Items) >= mostScattered {
		c.Kind = event.Other
		return
	}
	item.From = int32(f.cell)
	r.row.Items = append(r.row.Items, item)
	c.To = at + 1
	// Of scattered lists From is not where they begin, so their lengths are found
	// out by gather.
	if !r.scattered && c.To-c.From > event.MaxArray {
		c.Kind, r.row.Items = event.Other, r.row.Items[:c.From]
	}
}

// gather puts the items of each list together.
func (r *wireReader) gather() {
	slices.SortStableFunc(r.row.Items, func(a, b event.Cell) int { return int(a.From) - int(b.From) })
	items := r.row.Items
	for i := 0; i < len(items); {
		k := i
		for k < len(items) && items[k].From == items[i].From {
			k++
		}
		c := &r.row.Cells[items[i].From]
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
func (r *wireReader) proto(f *protoField, c *event.Cell, b []byte) (n int, err error) {
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
			return n, r.text(c, v, f.path)
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
func (r *wireReader) varint(f *protoField, c *event.Cell, v uint64) {
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

func (r *wireReader) whole(f *protoField, c *event.Cell, v int64) {
	c.Num = float64(v)
	if f.cell == r.idAt {
		r.idText = strconv.AppendInt(r.idText[:0], v, 10)
	}
}

func (r *wireReader) unsigned(f *protoField, c *event.Cell, v uint64) {
	c.Num = float64(v)
	if f.cell == r.idAt {
		r.idText = strconv.AppendUint(r.idText[:0], v, 10)
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
func (r *wireReader) timestamp(f *protoField, c *event.Cell, b []byte) error {
	var parts [2]int64
	for len(b) > 0 {
		number, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return r.malformed(f.path, n)
		}
		b = b[n:]
		if number <= 2 && wire == protowire.VarintType {
			var v uint64
			v, n = protowire.ConsumeVarint(b)
			parts[number-1] = int64(v)
		} else {
			n = protowire.ConsumeFieldValue(number, wire, b)
		}
		if n < 0 {
			return r.malformed(f.path, n)
		}
		b = b[n:]
	}
	c.Kind, c.Num = event.Time, float64(parts[0])*1000+float64(parts[1]/1_000_000)
	return nil
}
