package registry

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	// Schemas may refer to these files without holding them.
	_ "google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/durationpb"
	_ "google.golang.org/protobuf/types/known/emptypb"
	_ "google.golang.org/protobuf/types/known/structpb"
	_ "google.golang.org/protobuf/types/known/timestamppb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/streamsvm/streamsvm/events"
	"github.com/streamsvm/streamsvm/internal/wire"
	"github.com/streamsvm/streamsvm/stream"
)

const protoTimestamp = "google.protobuf.Timestamp"

// wrappers are messages whose one field stands for a value that may be missing.
var wrappers = []protoreflect.FullName{
	"google.protobuf.DoubleValue", "google.protobuf.FloatValue", "google.protobuf.Int64Value", "google.protobuf.UInt64Value",
	"google.protobuf.Int32Value", "google.protobuf.UInt32Value", "google.protobuf.BoolValue", "google.protobuf.StringValue",
}

// A protoPlan reads messages of one type. The library decodes a message; the plan
// maps its fields to cells.
type protoPlan struct {
	message protoreflect.MessageDescriptor
	fields  []protoField // by number
}

type protoField struct {
	protoreflect.FieldDescriptor
	path    string // for errors
	cell    int    // or wire.Passed, wire.Unlisted
	wrapper bool
	sub     *protoPlan // for a message whose fields are wanted
	items   *protoPlan // for the messages in a list
	keys    wire.Level // of a map whose keys are wanted
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

// messageOf returns the message type: by its name, or by its path in the last
// file.
func messageOf(s *wire.Schema, path []int) (protoreflect.MessageDescriptor, error) {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(s.Descriptors, &set); err != nil {
		return nil, errors.New("the descriptors are not a FileDescriptorSet")
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

// newProtoPlan returns the plan for records that hold the message at a path.
func newProtoPlan(s *wire.Schema, path []int, top wire.Level) (wire.Plan, error) {
	m, err := messageOf(s, path)
	if err != nil {
		return nil, err
	}
	return planMessage(m, top), nil
}

func planMessage(m protoreflect.MessageDescriptor, l wire.Level) *protoPlan {
	p := &protoPlan{message: m}
	for i := range m.Fields().Len() {
		d := m.Fields().Get(i)
		name := string(d.Name())
		f := protoField{FieldDescriptor: d, path: l.Path(name), cell: wire.Passed}
		if inner := d.Message(); inner != nil && !d.IsMap() && inner.FullName() != protoTimestamp {
			wrapper := slices.Contains(wrappers, inner.FullName())
			f.wrapper = wrapper && !d.IsList()
			if in := l.In(name); in != nil && !wrapper {
				if plan := planMessage(inner, in); d.IsList() {
					f.items = plan
				} else {
					f.sub = plan
				}
			}
		}
		if d.IsMap() {
			f.keys = l.In(name)
		}
		if f.sub == nil && f.keys == nil {
			f.cell = l.Cell(name)
		}
		p.fields = append(p.fields, f)
	}
	sort.Slice(p.fields, func(i, j int) bool { return p.fields[i].Number() < p.fields[j].Number() })
	return p
}

// unmarshal parses a message. The library panics on some malformed ones: on a map entry
// with two keys, the second one of another wire type.
func unmarshal(data []byte, m protoreflect.ProtoMessage) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	return proto.UnmarshalOptions{AllowPartial: true, RecursionLimit: wire.MaxDepth}.Unmarshal(data, m)
}

// Read implements wire.Plan.
func (p *protoPlan) Read(r *wire.Reader, data []byte) error {
	m := dynamicpb.NewMessage(p.message)
	if err := unmarshal(data, m); err != nil {
		return wire.Fail(stream.ReasonSyntax, "", "the record is cut off, or not Protobuf: %v", err)
	}
	return p.read(r, m)
}

func (p *protoPlan) read(r *wire.Reader, m protoreflect.Message) error {
	if err := p.unknown(r, m.GetUnknown()); err != nil {
		return err
	}
	for i := range p.fields {
		f := &p.fields[i]
		present := m.Has(f.FieldDescriptor)
		if f.cell == wire.Unlisted && present {
			r.Row.Unlisted++
		}
		var err error
		switch {
		case f.sub != nil && present:
			err = f.sub.read(r, m.Get(f.FieldDescriptor).Message())
		case f.keys != nil && present:
			err = f.readMap(r, m.Get(f.FieldDescriptor).Map())
		case f.items == nil && f.cell < 0, f.sub != nil:
		case f.IsList() && present:
			err = f.list(r, m.Get(f.FieldDescriptor).List())
		case f.IsMap() && present:
			r.Row.Cells[f.cell].Kind = events.Other
		case present, !f.HasPresence() && f.Cardinality() != protoreflect.Repeated && f.Kind() != protoreflect.BytesKind:
			err = f.single(r, &r.Row.Cells[f.cell], m.Get(f.FieldDescriptor))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gather reads the fields of a message in a list.
func (p *protoPlan) gather(r *wire.Reader, m protoreflect.Message) error {
	for i := range p.fields {
		f := &p.fields[i]
		present := m.Has(f.FieldDescriptor)
		var c events.Cell
		var err error
		switch {
		case f.sub != nil && present:
			err = f.sub.gather(r, m.Get(f.FieldDescriptor).Message())
		case f.cell < 0, f.sub != nil, f.IsList(), f.IsMap():
		case present, !f.HasPresence() && f.Kind() != protoreflect.BytesKind:
			err = f.single(r, &c, m.Get(f.FieldDescriptor))
		}
		if err != nil {
			return err
		}
		if c.Kind > events.Null {
			r.Row.Gather(f.cell, c)
		}
	}
	return nil
}

// unknown counts the fields that the message type does not have. The library treats a
// field with the wrong wire type as one of them, which is an error here.
func (p *protoPlan) unknown(r *wire.Reader, data []byte) error {
	for len(data) > 0 {
		number, typ, n := protowire.ConsumeField(data)
		if n < 0 {
			return wire.Fail(stream.ReasonSyntax, "", "%v", protowire.ParseError(n))
		}
		data = data[n:]
		i, ok := slices.BinarySearchFunc(p.fields, number, func(f protoField, n protowire.Number) int { return cmp.Compare(f.Number(), n) })
		switch {
		case !ok:
			r.Row.Unlisted++
		case p.fields[i].cell >= 0 || p.fields[i].sub != nil || p.fields[i].keys != nil:
			return wire.Fail(stream.ReasonType, p.fields[i].path, "wire type %d, where the schema has %s", typ, p.fields[i].Kind())
		}
	}
	return nil
}

func (f *protoField) list(r *wire.Reader, list protoreflect.List) error {
	var passed events.Cell
	c := &passed
	if f.cell >= 0 {
		c = &r.Row.Cells[f.cell]
	}
	if list.Len() > events.MaxArray {
		c.Kind = events.Other
		return nil
	}
	from := len(r.Row.Items)
	for i := range list.Len() {
		var item events.Cell
		if err := f.set(&item, f.FieldDescriptor, list.Get(i)); err != nil {
			return err
		}
		if f.items != nil {
			if err := f.items.gather(r, list.Get(i).Message()); err != nil {
				return err
			}
		}
		r.Row.Items = append(r.Row.Items, item)
	}
	if at := r.Row.Gathered(); at >= 0 {
		return wire.Fail(stream.ReasonDuplicate, f.path, "a field in its messages has another value")
	}
	c.Kind, c.From, c.To = events.List, int32(from), int32(from+list.Len())
	return nil
}

func (f *protoField) readMap(r *wire.Reader, m protoreflect.Map) error {
	values := map[string]protoreflect.Value{}
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		values[k.String()] = v
		return true
	})
	return r.ReadMap(f.keys, maps.Keys(values), func(c *events.Cell, key, path string) error {
		return (&protoField{path: path}).set(c, f.MapValue(), values[key])
	})
}

// single puts a value that is not a list into a cell.
func (f *protoField) single(r *wire.Reader, c *events.Cell, v protoreflect.Value) error {
	d := f.FieldDescriptor
	if f.wrapper {
		d = d.Message().Fields().ByNumber(1)
		v = v.Message().Get(d)
	}
	if f.cell == r.IDCell {
		switch v.Interface().(type) {
		case int32, int64:
			r.IDText = strconv.AppendInt(r.IDText[:0], v.Int(), 10)
		case uint32, uint64:
			r.IDText = strconv.AppendUint(r.IDText[:0], v.Uint(), 10)
		}
	}
	return f.set(c, d, v)
}

// set sets a cell to a value of d, which is the field itself or the one in its wrapper.
func (f *protoField) set(c *events.Cell, d protoreflect.FieldDescriptor, v protoreflect.Value) error {
	c.Kind = events.Number
	switch v := v.Interface().(type) {
	case bool:
		if c.Kind = events.Bool; v {
			c.Num = 1
		}
	case int32:
		c.Num = float64(v)
	case int64:
		c.Num = float64(v)
	case uint32:
		c.Num = float64(v)
	case uint64:
		c.Num = float64(v)
	case float32:
		c.Num = float64(v)
	case float64:
		c.Num = v
	case string:
		return wire.SetText(c, []byte(v), f.path)
	case protoreflect.EnumNumber:
		c.Num = float64(v)
		if e := d.Enum().Values().ByNumber(v); e != nil {
			c.Kind, c.Text = events.Text, []byte(e.Name())
		}
	case protoreflect.Message:
		if c.Kind = events.Other; d.Message().FullName() == protoTimestamp {
			fields := d.Message().Fields()
			seconds, nanos := v.Get(fields.ByNumber(1)).Int(), v.Get(fields.ByNumber(2)).Int()
			c.Kind, c.Num = events.Time, float64(seconds)*1000+float64(nanos/1_000_000)
		}
	default: // bytes
		c.Kind = events.Other
	}
	return nil
}
