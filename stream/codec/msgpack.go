package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/streamsvm/streamsvm/stream"
)

// msgpack reads and writes one MessagePack map per value, with the keys of the
// JSON form. "x" is
//
//	dense:  an array of floats and integers, or a bin of little-endian float32
//	sparse: a map of "i", the 0-based indices, as bin of little-endian int32 or
//	        array of integers, and "v", the values, in a form of a dense "x";
//	        indices must strictly increase
//
// "y" is a float or an integer, nil or absent if the label is unknown; "id"
// a string, a bin, an integer, or nil; "weight" a number above 0, the importance
// weight, 1 if absent or nil. Every other key, of any type, is skipped with its
// value. Bytes after the map are refused.
//
// The encoder writes bin.
type msgpack struct{ common }

func (*msgpack) Name() string { return "msgpack" }

// Decode implements stream.Decoder.
func (c *msgpack) Decode(value []byte, ex *stream.Example) error { return c.DecodeIn(nil, value, ex) }

// DecodeIn implements stream.ArenaDecoder.
func (c *msgpack) DecodeIn(a *stream.Arena, value []byte, ex *stream.Example) error {
	if err := checkSize(value); err != nil {
		return err
	}
	p := packed{b: value}
	h, err := p.head()
	if err != nil {
		return fail(stream.StageDecode, stream.ReasonSyntax, "", err)
	}
	if h.kind != kindMap {
		return failf(stream.StageDecode, stream.ReasonType, "", "the value is of type %s, want a map", h.kind)
	}
	var d draft
	for range h.size {
		name, err := p.key(1)
		if err != nil {
			return err
		}
		f, err := d.field(name)
		if err != nil {
			return err
		}
		switch f {
		case fieldX:
			err = c.vector(a, &p, &d.x)
		case fieldY:
			d.y, d.labelled, err = c.label(&p)
		case fieldID:
			d.id, err = p.id()
		case fieldWeight:
			d.weight, err = p.weight()
		default:
			if err = p.skip(1); err != nil {
				err = fail(stream.StageDecode, stream.ReasonSyntax, "", err)
			}
		}
		if err != nil {
			return err
		}
	}
	if p.i != len(p.b) {
		return failf(stream.StageDecode, stream.ReasonSyntax, "", "%d bytes follow the map", len(p.b)-p.i)
	}
	if d.seen&fieldX == 0 {
		return failf(stream.StageDecode, stream.ReasonMissing, "x", "missing")
	}
	d.finish(a, ex)
	return nil
}

func (c *msgpack) label(p *packed) (y label, labelled bool, err error) {
	h, err := p.head()
	if err != nil {
		return label{}, false, fail(stream.StageDecode, stream.ReasonSyntax, "y", err)
	}
	if h.kind == kindNil {
		return label{}, false, nil
	}
	if !c.labels.numeric() {
		return c.labelWord(p, h)
	}
	v, ok := h.number()
	if !ok {
		return label{}, false, failf(stream.StageLabel, stream.ReasonType, "y", "the label is of type %s, want a number", h.kind)
	}
	y, err = c.labels.decode(v)
	return y, err == nil, err
}

// labelWord reads the rest of a label that is not a number.
func (c *msgpack) labelWord(p *packed, h head) (y label, labelled bool, err error) {
	want := kindString
	if c.labels.kind == bools {
		want = kindBool
	}
	if h.kind != want {
		return label{}, false, failf(stream.StageLabel, stream.ReasonType, "y", "the label is of type %s, want a %s", h.kind, want)
	}
	var text []byte
	if want == kindBool {
		text = strconv.AppendBool(nil, h.n != 0)
	} else if text, err = p.bytes(h.size); err != nil {
		return label{}, false, fail(stream.StageDecode, stream.ReasonSyntax, "y", err)
	}
	y, err = c.labels.word(text)
	return y, err == nil, err
}

func (p *packed) weight() (float32, error) {
	h, err := p.head()
	if err != nil {
		return 0, fail(stream.StageDecode, stream.ReasonSyntax, "weight", err)
	}
	if h.kind == kindNil {
		return 0, nil
	}
	v, ok := h.number()
	if !ok {
		return 0, failf(stream.StageDecode, stream.ReasonType, "weight", "the weight is of type %s, want a number", h.kind)
	}
	return weightOf(v, "weight")
}

func (p *packed) id() (string, error) {
	h, err := p.head()
	if err != nil {
		return "", fail(stream.StageDecode, stream.ReasonSyntax, "id", err)
	}
	switch h.kind {
	case kindNil:
		return "", nil
	case kindInt:
		return strconv.FormatInt(h.n, 10), nil
	case kindUint:
		return strconv.FormatUint(uint64(h.n), 10), nil
	case kindString, kindBin:
		b, err := p.bytes(h.size)
		if err != nil {
			return "", fail(stream.StageDecode, stream.ReasonSyntax, "id", err)
		}
		return string(b), nil
	}
	return "", failf(stream.StageDecode, stream.ReasonType, "id", "the value is of type %s, want a string", h.kind)
}

func (c *msgpack) vector(a *stream.Arena, p *packed, x *stream.Vec) error {
	start := p.i
	h, err := p.head()
	if err != nil {
		return fail(stream.StageDecode, stream.ReasonSyntax, "x", err)
	}
	if h.kind != kindMap {
		p.i = start
		x.Val, err = c.floats(a, p, "x")
		if err != nil {
			return err
		}
		if k := x.CheckFinite(); k >= 0 {
			return failf(stream.StageFeature, stream.ReasonNotFinite, indexed(k), "the value is %v as float32", x.Val[k])
		}
		return nil
	}
	var seenI, seenV bool
	for range h.size {
		name, err := p.key(2)
		if err != nil {
			return err
		}
		switch name {
		case "i":
			if seenI {
				return twice("x.i")
			}
			seenI = true
			x.Idx, err = c.indices(a, p)
		case "v":
			if seenV {
				return twice("x.v")
			}
			seenV = true
			x.Val, err = c.floats(a, p, "x.v")
		default:
			if err = p.skip(2); err != nil {
				err = fail(stream.StageDecode, stream.ReasonSyntax, "x", err)
			}
		}
		if err != nil {
			return err
		}
	}
	if !seenI || !seenV || len(x.Idx) != len(x.Val) {
		return failf(stream.StageDecode, stream.ReasonDimension, "x", "%d indices, %d values", len(x.Idx), len(x.Val))
	}
	if k := x.CheckFinite(); k >= 0 {
		return failf(stream.StageFeature, stream.ReasonNotFinite, feature(int(x.Idx[k])+1), "the value is %v as float32", x.Val[k])
	}
	return nil
}

// list reads the head of an array or bin and returns the number of its elements,
// of width bytes in a bin; an element of an array takes at least one byte.
func (p *packed) list(field string, width int) (n int, array bool, err error) {
	h, err := p.head()
	switch {
	case err != nil:
	case h.kind == kindArray:
		if n = h.size; n > len(p.b)-p.i {
			err = errShort
		}
		array = true
	case h.kind == kindBin:
		if n = h.size / width; h.size > len(p.b)-p.i {
			err = errShort
		} else if h.size%width != 0 {
			err = fmt.Errorf("%d bytes are no whole number of %d-byte elements", h.size, width)
		}
	default:
		err = fmt.Errorf("the value is of type %s, want an array or bin", h.kind)
	}
	if err != nil {
		return 0, false, fail(stream.StageDecode, stream.ReasonSyntax, field, err)
	}
	return n, array, nil
}

// floats reads a list of values, which may turn out not to be finite.
func (c *msgpack) floats(a *stream.Arena, p *packed, field string) ([]float32, error) {
	n, array, err := p.list(field, 4)
	if err == nil {
		err = c.checkDim(n)
	}
	if err != nil {
		return nil, err
	}
	val := a.Val(n)[:n]
	if !array {
		b := p.b[p.i : p.i+4*n]
		p.i += len(b)
		for k := range val {
			val[k] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*k:]))
		}
		return val, nil
	}
	for k := range val {
		h, err := p.head()
		if err != nil {
			return nil, fail(stream.StageDecode, stream.ReasonSyntax, field, err)
		}
		v, ok := h.number()
		if !ok {
			return nil, failf(stream.StageDecode, stream.ReasonType, field+indexed(k)[1:], "the value is of type %s, want a number", h.kind)
		}
		if val[k] = float32(v); h.kind == kindInt {
			val[k] = float32(h.n) // rounded once
		}
	}
	return val, nil
}

// indices reads a list of indices and checks their order.
func (c *msgpack) indices(a *stream.Arena, p *packed) ([]int32, error) {
	const field = "x.i"
	n, array, err := p.list(field, 4)
	if err == nil {
		err = c.checkDim(n)
	}
	if err != nil {
		return nil, err
	}
	idx := a.Idx(n)[:n]
	last := int64(-1)
	for k := range idx {
		var j int64
		if array {
			h, err := p.head()
			if err != nil {
				return nil, fail(stream.StageDecode, stream.ReasonSyntax, field, err)
			}
			if h.kind != kindInt {
				return nil, failf(stream.StageDecode, stream.ReasonType, field+indexed(k)[1:], "the index is of type %s, want an int", h.kind)
			}
			j = h.n
		} else {
			j = int64(int32(binary.LittleEndian.Uint32(p.b[p.i:])))
			p.i += 4
		}
		if j <= last {
			return nil, failf(stream.StageDecode, stream.ReasonOrder, field+indexed(k)[1:], "the index %d follows %d, indices must increase from 0", j, last)
		}
		if j >= int64(c.maxDim) {
			return nil, c.indexTooLarge(field + indexed(k)[1:])
		}
		idx[k] = int32(j)
		last = j
	}
	return idx, nil
}

// Append implements stream.Encoder. An unlabelled example is written without
// "y", one without ID without "id".
func (c *msgpack) Append(dst []byte, ex *stream.Example) ([]byte, error) {
	if err := c.checkVec(ex.X); err != nil {
		return dst, err
	}
	size := byte(1)
	if ex.Labelled {
		size++
	}
	if ex.ID != "" {
		size++
	}
	weighs, err := hasWeight(ex)
	if err != nil {
		return dst, err
	}
	if weighs {
		size++
	}
	out := append(dst, 0x80|size, 0xa1, 'x')
	if ex.X.Idx != nil {
		out = append(out, 0x82, 0xa1, 'i')
		out = appendBin(out, 4*len(ex.X.Idx))
		for _, j := range ex.X.Idx {
			out = binary.LittleEndian.AppendUint32(out, uint32(j))
		}
		out = append(out, 0xa1, 'v')
	}
	out = appendBin(out, 4*len(ex.X.Val))
	for _, v := range ex.X.Val {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	if ex.Labelled {
		y, text, _, err := c.labels.encode(ex)
		if err != nil {
			return dst, err
		}
		out = append(out, 0xa1, 'y')
		switch {
		case !c.labels.numeric():
			out = c.appendWord(out, text)
		case !c.labels.regress && y >= -32 && y <= 127 && y == math.Trunc(y):
			out = append(out, byte(int8(y))) // a fixint
		default:
			out = append(out, 0xcb)
			out = binary.BigEndian.AppendUint64(out, math.Float64bits(y))
		}
	}
	if ex.ID != "" {
		if len(ex.ID) > math.MaxInt32 {
			return dst, failf(stream.StageDecode, stream.ReasonTooLarge, "id", "%d bytes are too many", len(ex.ID))
		}
		out = appendStr(append(out, 0xa2, 'i', 'd'), ex.ID)
	}
	if weighs {
		out = append(appendStr(out, "weight"), 0xca)
		out = binary.BigEndian.AppendUint32(out, math.Float32bits(ex.Weight))
	}
	return out, nil
}

// appendWord appends a label that is not a number.
func (c *msgpack) appendWord(dst []byte, text string) []byte {
	switch {
	case c.labels.kind == texts:
		return appendStr(dst, text)
	case text == "true":
		return append(dst, 0xc3)
	default:
		return append(dst, 0xc2)
	}
}

func appendStr(dst []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		dst = append(dst, 0xa0|byte(n))
	case n < 1<<8:
		dst = append(dst, 0xd9, byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, 0xda), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, 0xdb), uint32(n))
	}
	return append(dst, s...)
}

// appendBin appends the head of a bin of n bytes.
func appendBin(dst []byte, n int) []byte {
	switch {
	case n < 1<<8:
		return append(dst, 0xc4, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, 0xc5), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(dst, 0xc6), uint32(n))
}
