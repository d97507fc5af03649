package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unsafe"

	"github.com/streamsvm/streamsvm/stream"
)

// msgpack reads and writes one MessagePack map per value, with the keys of the
// JSON form. "x" is
//
//	dense:  an array of floats and integers, or a bin of little-endian float32
//	sparse: a map of "i", the 0-based indices, as bin of little-endian int32 or
//	        array of integers, and "v", the values, as a dense "x" would be;
//	        indices must strictly increase
//
// "y" is a float or an integer, nil or absent where the label is unknown; "id"
// a string, a bin, an integer, or nil. Every other key, of whatever type, is
// passed over with its value. What follows the map is refused.
//
// The encoder writes bin.
type msgpack struct{ common }

func (*msgpack) Name() string { return "msgpack" }

// errShort says that a MessagePack value is longer than the bytes at hand.
var errShort = io.ErrUnexpectedEOF

// kind is a family of MessagePack formats.
type kind uint8

const (
	kindNil kind = iota
	kindBool
	kindInt    // head.n holds it
	kindUint   // above the range of int64, head.n holds its bits
	kindFloat  // head.f
	kindString // head.size bytes follow
	kindBin    // head.size bytes follow
	kindExt    // head.size bytes follow, the type among them
	kindArray  // head.size values follow
	kindMap    // head.size pairs follow
)

var kindNames = [...]string{"nil", "bool", "int", "uint", "float", "str", "bin", "ext", "array", "map"}

func (k kind) String() string { return kindNames[k] }

// head is the first part of a MessagePack value: a number itself, or the size
// of what follows, which has not been compared with what is there.
type head struct {
	kind kind
	size int
	n    int64
	f    float64
}

// packed is a MessagePack text and a position in it.
type packed struct {
	b []byte
	i int
}

func (p *packed) uint(n int) (uint64, error) {
	if len(p.b)-p.i < n {
		return 0, errShort
	}
	b := p.b[p.i:]
	p.i += n
	switch n {
	case 1:
		return uint64(b[0]), nil
	case 2:
		return uint64(binary.BigEndian.Uint16(b)), nil
	case 4:
		return uint64(binary.BigEndian.Uint32(b)), nil
	}
	return binary.BigEndian.Uint64(b), nil
}

// size is uint for a size, which is refused where twice that is no int32: it
// is more than any value may have.
func (p *packed) size(n int) (uint64, error) {
	u, err := p.uint(n)
	if u >= 1<<30 {
		return 0, fmt.Errorf("a size of %d is too large", u)
	}
	return u, err
}

// head passes over the head of the next value.
func (p *packed) head() (h head, err error) {
	if p.i == len(p.b) {
		return h, errShort
	}
	c := p.b[p.i]
	p.i++
	var u uint64
	switch {
	case c <= 0x7f:
		return head{kind: kindInt, n: int64(c)}, nil
	case c <= 0x8f:
		return head{kind: kindMap, size: int(c & 15)}, nil
	case c <= 0x9f:
		return head{kind: kindArray, size: int(c & 15)}, nil
	case c <= 0xbf:
		return head{kind: kindString, size: int(c & 31)}, nil
	case c >= 0xe0:
		return head{kind: kindInt, n: int64(int8(c))}, nil
	case c == 0xc0:
		return head{kind: kindNil}, nil
	case c == 0xc1:
		return h, errors.New("the byte 0xc1 begins no value")
	case c <= 0xc3:
		return head{kind: kindBool}, nil
	case c <= 0xc6: // bin 8, 16, 32
		u, err = p.size(1 << (c - 0xc4))
		return head{kind: kindBin, size: int(u)}, err
	case c <= 0xc9: // ext 8, 16, 32
		u, err = p.size(1 << (c - 0xc7))
		return head{kind: kindExt, size: int(u) + 1}, err
	case c == 0xca:
		u, err = p.uint(4)
		return head{kind: kindFloat, f: float64(math.Float32frombits(uint32(u)))}, err
	case c == 0xcb:
		u, err = p.uint(8)
		return head{kind: kindFloat, f: math.Float64frombits(u)}, err
	case c <= 0xcf: // uint 8, 16, 32, 64
		u, err = p.uint(1 << (c - 0xcc))
		if u > math.MaxInt64 {
			return head{kind: kindUint, n: int64(u)}, err
		}
		return head{kind: kindInt, n: int64(u)}, err
	case c <= 0xd3: // int 8, 16, 32, 64
		size := 1 << (c - 0xd0)
		u, err = p.uint(size)
		shift := 64 - 8*size
		return head{kind: kindInt, n: int64(u<<shift) >> shift}, err
	case c <= 0xd8: // fixext 1 to 16
		return head{kind: kindExt, size: 1<<(c-0xd4) + 1}, nil
	case c <= 0xdb: // str 8, 16, 32
		u, err = p.size(1 << (c - 0xd9))
		return head{kind: kindString, size: int(u)}, err
	case c <= 0xdd: // array 16, 32
		u, err = p.size(2 << (c - 0xdc))
		return head{kind: kindArray, size: int(u)}, err
	default: // map 16, 32
		u, err = p.size(2 << (c - 0xde))
		return head{kind: kindMap, size: int(u)}, err
	}
}

// bytes passes over the size bytes that follow a head.
func (p *packed) bytes(size int) ([]byte, error) {
	if size > len(p.b)-p.i {
		return nil, errShort
	}
	b := p.b[p.i : p.i+size]
	p.i += size
	return b, nil
}

// skip passes over any value, which lies depth levels deep.
func (p *packed) skip(depth int) error {
	s := MsgpackSplitter{depth: depth}
	n, err := s.Next(p.b[p.i:])
	p.i += n
	return err
}

// MsgpackSplitter finds the ends of MessagePack values in a growing buffer
// without decoding them. The zero value is ready for use.
type MsgpackSplitter struct {
	pos   int // how far the value has been looked at
	depth int
	open  []int // values still to come at each open level
}

// Next returns the length of the MessagePack value that data starts with,
// io.ErrUnexpectedEOF if data is too short to tell, and another error if it is
// not MessagePack or nested too deeply. After io.ErrUnexpectedEOF the next
// call takes the same data with more behind it, and goes on where this one
// stopped; after success the next call takes the next value.
func (s *MsgpackSplitter) Next(data []byte) (int, error) {
	p := packed{b: data, i: s.pos}
	for {
		h, err := p.head()
		if err != nil {
			return 0, err
		}
		switch h.kind {
		case kindString, kindBin, kindExt:
			if _, err := p.bytes(h.size); err != nil {
				return 0, err
			}
		case kindMap, kindArray:
			if s.depth+len(s.open) >= maxDepth {
				return 0, errors.New("the nesting is too deep")
			}
			n := h.size
			if h.kind == kindMap {
				n *= 2
			}
			s.open = append(s.open, n+1)
		}
		s.pos = p.i
		for {
			if len(s.open) == 0 {
				n := s.pos
				s.pos = 0
				return n, nil
			}
			top := &s.open[len(s.open)-1]
			if *top--; *top > 0 {
				break
			}
			s.open = s.open[:len(s.open)-1]
		}
	}
}

// number returns the number in h.
func (h head) number() (float64, bool) {
	switch h.kind {
	case kindInt:
		return float64(h.n), true
	case kindUint:
		return float64(uint64(h.n)), true
	case kindFloat:
		return h.f, true
	}
	return 0, false
}

// Decode implements stream.Decoder.
func (c *msgpack) Decode(value []byte, ex *stream.Example) error {
	if err := c.checkSize(value); err != nil {
		return err
	}
	p := packed{b: value}
	h, err := p.head()
	if err != nil {
		return fail(stream.StageDecode, "", err)
	}
	if h.kind != kindMap {
		return failf(stream.StageDecode, "", "the value is of type %s, want a map", h.kind)
	}
	var (
		x                   stream.Vec
		y                   float64
		id                  string
		labelled            bool
		seenX, seenY, seenI bool
	)
	for range h.size {
		name, err := p.key(1)
		if err != nil {
			return err
		}
		switch name {
		case "x":
			err = once(&seenX, name)
			if err == nil {
				x, err = c.vector(&p)
			}
		case "y":
			err = once(&seenY, name)
			if err == nil {
				y, labelled, err = c.label(&p)
			}
		case "id":
			err = once(&seenI, name)
			if err == nil {
				id, err = p.id()
			}
		default:
			if err = p.skip(1); err != nil {
				err = fail(stream.StageDecode, "", err)
			}
		}
		if err != nil {
			return err
		}
	}
	if p.i != len(p.b) {
		return failf(stream.StageDecode, "", "%d bytes follow the map", len(p.b)-p.i)
	}
	if !seenX {
		return failf(stream.StageDecode, "x", "missing")
	}
	ex.ID, ex.X, ex.Y, ex.Labelled = id, x, y, labelled
	return nil
}

// key passes over a map's key; the name is empty if it is not a short string.
// It is only good for comparisons while the text is at hand.
func (p *packed) key(depth int) (string, error) {
	start := p.i
	h, err := p.head()
	if err == nil && h.kind == kindString {
		var b []byte
		if b, err = p.bytes(h.size); err == nil {
			if len(b) > 2 {
				return "", nil
			}
			return unsafe.String(unsafe.SliceData(b), len(b)), nil
		}
	}
	if err == nil {
		p.i = start
		err = p.skip(depth)
	}
	if err != nil {
		return "", fail(stream.StageDecode, "", err)
	}
	return "", nil
}

func (c *msgpack) label(p *packed) (y float64, labelled bool, err error) {
	h, err := p.head()
	if err != nil {
		return 0, false, fail(stream.StageDecode, "y", err)
	}
	if h.kind == kindNil {
		return 0, false, nil
	}
	v, ok := h.number()
	if !ok {
		return 0, false, failf(stream.StageLabel, "y", "the label is of type %s, want a number", h.kind)
	}
	y, err = c.labels.decode(v)
	return y, err == nil, err
}

func (p *packed) id() (string, error) {
	h, err := p.head()
	if err != nil {
		return "", fail(stream.StageDecode, "id", err)
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
			return "", fail(stream.StageDecode, "id", err)
		}
		return string(b), nil
	}
	return "", failf(stream.StageDecode, "id", "the value is of type %s, want a string", h.kind)
}

func (c *msgpack) vector(p *packed) (x stream.Vec, err error) {
	start := p.i
	h, err := p.head()
	if err != nil {
		return x, fail(stream.StageDecode, "x", err)
	}
	if h.kind != kindMap {
		p.i = start
		x.Val, err = c.floats(p, "x")
		if err != nil {
			return x, err
		}
		if k := x.CheckFinite(); k >= 0 {
			return x, failf(stream.StageFeature, indexed(k), "the value is %v as float32", x.Val[k])
		}
		return x, nil
	}
	var seenI, seenV bool
	for range h.size {
		name, err := p.key(2)
		if err != nil {
			return x, err
		}
		switch name {
		case "i":
			err = once(&seenI, "x.i")
			if err == nil {
				x.Idx, err = c.indices(p)
			}
		case "v":
			err = once(&seenV, "x.v")
			if err == nil {
				x.Val, err = c.floats(p, "x.v")
			}
		default:
			if err = p.skip(2); err != nil {
				err = fail(stream.StageDecode, "x", err)
			}
		}
		if err != nil {
			return x, err
		}
	}
	if !seenI || !seenV || len(x.Idx) != len(x.Val) {
		return x, failf(stream.StageDecode, "x", "%d indices, %d values", len(x.Idx), len(x.Val))
	}
	if k := x.CheckFinite(); k >= 0 {
		return x, failf(stream.StageFeature, feature(int(x.Idx[k])+1), "the value is %v as float32", x.Val[k])
	}
	return x, nil
}

// list passes over the head of an array or bin and returns how many elements
// of width bytes it holds; an element of an array takes one byte at least.
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
		return 0, false, fail(stream.StageDecode, field, err)
	}
	return n, array, nil
}

// floats passes over a list of values, which may turn out not to be finite.
func (c *msgpack) floats(p *packed, field string) ([]float32, error) {
	n, array, err := p.list(field, 4)
	if err == nil {
		err = c.checkDim(n)
	}
	if err != nil {
		return nil, err
	}
	val := make([]float32, n)
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
			return nil, fail(stream.StageDecode, field, err)
		}
		v, ok := h.number()
		if !ok {
			return nil, failf(stream.StageDecode, field+indexed(k)[1:], "the value is of type %s, want a number", h.kind)
		}
		if val[k] = float32(v); h.kind == kindInt {
			val[k] = float32(h.n) // rounded once
		}
	}
	return val, nil
}

// indices passes over a list of indices and checks their order.
func (c *msgpack) indices(p *packed) ([]int32, error) {
	const field = "x.i"
	n, array, err := p.list(field, 4)
	if err == nil {
		err = c.checkDim(n)
	}
	if err != nil {
		return nil, err
	}
	idx := make([]int32, n)
	last := int64(-1)
	for k := range idx {
		var j int64
		if array {
			h, err := p.head()
			if err != nil {
				return nil, fail(stream.StageDecode, field, err)
			}
			if h.kind != kindInt {
				return nil, failf(stream.StageDecode, field+indexed(k)[1:], "the index is of type %s, want an int", h.kind)
			}
			j = h.n
		} else {
			j = int64(int32(binary.LittleEndian.Uint32(p.b[p.i:])))
			p.i += 4
		}
		if j <= last {
			return nil, failf(stream.StageDecode, field+indexed(k)[1:], "the index %d follows %d, indices must increase from 0", j, last)
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
		y, err := c.labels.encode(ex.Y)
		if err != nil {
			return dst, err
		}
		out = append(out, 0xa1, 'y')
		if c.labels.regress {
			out = append(out, 0xcb)
			out = binary.BigEndian.AppendUint64(out, math.Float64bits(y))
		} else {
			out = append(out, byte(int8(y))) // a fixint: −1, 0, 1 or 2
		}
	}
	if ex.ID != "" {
		if len(ex.ID) > math.MaxInt32 {
			return dst, failf(stream.StageDecode, "id", "%d bytes are too many", len(ex.ID))
		}
		out = append(out, 0xa2, 'i', 'd')
		switch n := len(ex.ID); {
		case n < 32:
			out = append(out, 0xa0|byte(n))
		case n < 1<<8:
			out = append(out, 0xd9, byte(n))
		case n < 1<<16:
			out = binary.BigEndian.AppendUint16(append(out, 0xda), uint16(n))
		default:
			out = binary.BigEndian.AppendUint32(append(out, 0xdb), uint32(n))
		}
		out = append(out, ex.ID...)
	}
	return out, nil
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
