package onnx

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is a message of Protocol Buffers that grows field by field, with the
// numbers of onnx.proto.
type message []byte

func (m *message) int(field protowire.Number, v int64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), uint64(v))
}

func (m *message) text(field protowire.Number, v string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), v)
}

func (m *message) bytes(field protowire.Number, v []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), v)
}

// Types of the elements of tensors, from TensorProto.DataType.
const (
	typeFloat  = 1
	typeInt64  = 7
	typeString = 8
	typeBool   = 9
	typeDouble = 11
)

// Versions. Graphs that join texts use the later ones.
const (
	opset, irVersion           = 17, 8
	opsetTexts, irVersionTexts = 20, 9
	opsetML                    = 3
	opsetMicrosoft             = 1
)

// A Value is an input or an output of a graph.
type Value struct {
	Name string
	// Type is "double", "int64", "string" or "bool".
	Type string
	// Shape holds the size of each dimension after the first, which is the number
	// of rows; −1 is any size.
	Shape []int64
}

var elements = map[string]int64{"double": typeDouble, "int64": typeInt64, "string": typeString, "bool": typeBool}

// info returns the ValueInfoProto.
func (v *Value) info() message {
	var dim, shape, tensor, typ, info message
	dim.text(2, "N")
	shape.bytes(1, dim)
	for i, n := range v.Shape {
		dim = nil
		if n < 0 {
			dim.text(2, fmt.Sprintf("K%d", i))
		} else {
			dim.int(1, n)
		}
		shape.bytes(1, dim)
	}
	tensor.int(1, elements[v.Type])
	tensor.bytes(2, shape)
	typ.bytes(1, tensor)
	info.text(1, v.Name)
	info.bytes(2, typ)
	return info
}

// tensor returns a TensorProto, without a name, of []float64, []float32, []int64,
// []bool or []string.
func tensor(values any, shape []int) message {
	var m, dims message
	for _, n := range shape {
		dims = protowire.AppendVarint(dims, uint64(n))
	}
	m.bytes(1, dims)
	var raw []byte
	switch v := values.(type) {
	case []float64:
		m.int(2, typeDouble)
		raw = make([]byte, 0, 8*len(v))
		for _, x := range v {
			raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(x))
		}
	case []float32:
		m.int(2, typeFloat)
		raw = make([]byte, 0, 4*len(v))
		for _, x := range v {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
	case []int64:
		m.int(2, typeInt64)
		for _, x := range v {
			raw = binary.LittleEndian.AppendUint64(raw, uint64(x))
		}
	case []bool:
		m.int(2, typeBool)
		for _, x := range v {
			b := byte(0)
			if x {
				b = 1
			}
			raw = append(raw, b)
		}
	case []string:
		m.int(2, typeString)
		for _, x := range v {
			m.text(6, x)
		}
	default:
		panic(fmt.Sprintf("a tensor of %T", values))
	}
	if _, texts := values.([]string); !texts {
		m.bytes(9, raw)
	}
	return m
}

// attribute returns an AttributeProto of an int, a string, []int64 or []string.
func attribute(name string, value any) message {
	var m message
	m.text(1, name)
	switch v := value.(type) {
	case int:
		m.int(3, int64(v))
		m.int(20, 2)
	case string:
		m.text(4, v)
		m.int(20, 3)
	case []int64:
		for _, x := range v {
			m.int(8, x)
		}
		m.int(20, 7)
	case []string:
		for _, x := range v {
			m.text(9, x)
		}
		m.int(20, 8)
	default:
		panic(fmt.Sprintf("an attribute of type %T", value))
	}
	return m
}
