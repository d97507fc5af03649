package registry

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

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

	"github.com/streamsvm/streamsvm/internal/wire"
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
	case f.cell == wire.Passed && f.sub == nil && wireOf(f.kind) == protowire.BytesType:
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

// messageOf returns the message that records of a schema are: by its name, or by
// its path in the last file.
func messageOf(s *wire.Schema, path []int) (protoreflect.MessageDescriptor, error) {
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
func newProtoPlan(s *wire.Schema, path []int, top wire.Level) (wire.Plan, error) {
	m, err := messageOf(s, path)
	if err != nil {
		return nil, err
	}
	return newMessagePlan(m, top), nil
}

// mostSmall is the number of fields that are found by a table.
const mostSmall = 1 << 10

func newMessagePlan(m protoreflect.MessageDescriptor, l wire.Level) *protoPlan {
	p := new(protoPlan)
	for i := range m.Fields().Len() {
		d := m.Fields().Get(i)
		f := protoField{path: l.Path(string(d.Name()))}
		name := string(d.Name())
		message := d.Message()
		switch {
		case message == nil || d.IsList() || d.IsMap() || message.FullName() == protoTimestamp:
			f.cell = l.Cell(name)
		case slices.Contains(wrappers, message.FullName()):
			f.cell = l.Cell(name)
			inner := protoField{path: f.path, cell: f.cell}
			inner.of(message.Fields().ByNumber(1))
			f.sub = &protoPlan{fields: []protoField{inner}}
			f.sub.index()
			if f.cell >= 0 {
				f.sub.zeros = []protoZero{{f.cell, &f.sub.fields[0]}}
			}
		default:
			if in := l.In(name); in != nil {
				f.cell, f.sub = wire.Passed, newMessagePlan(message, in)
			} else {
				f.cell = l.Cell(name)
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
