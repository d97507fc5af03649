package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"unsafe"

	"github.com/streamsvm/streamsvm/stream"
)

// errShort says that a MessagePack value is longer than the bytes at hand.
var errShort = io.ErrUnexpectedEOF

// kind is a family of MessagePack formats.
type kind uint8

const (
	kindNil    kind = iota
	kindBool        // head.n is 0 or 1
	kindInt         // head.n holds it
	kindUint        // above the range of int64, head.n holds its bits
	kindFloat       // head.f
	kindString      // head.size bytes follow
	kindBin         // head.size bytes follow
	kindExt         // head.size bytes follow, the type among them
	kindArray       // head.size values follow
	kindMap         // head.size pairs follow
)

var kindNames = [...]string{"nil", "bool", "int", "uint", "float", "str", "bin", "ext", "array", "map"}

func (k kind) String() string { return kindNames[k] }

// head is the first part of a MessagePack value: a number itself, or the size
// of the content that follows, not yet checked against the remaining bytes.
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

// size is uint for a size. It refuses sizes of 2³⁰ or more, which no value may have
// and whose double may overflow an int32.
func (p *packed) size(n int) (uint64, error) {
	u, err := p.uint(n)
	if u >= 1<<30 {
		return 0, fmt.Errorf("a size of %d is too large", u)
	}
	return u, err
}

// head reads the head of the next value.
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
		return head{kind: kindBool, n: int64(c & 1)}, nil
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

// bytes reads the size bytes that follow a head.
func (p *packed) bytes(size int) ([]byte, error) {
	if size > len(p.b)-p.i {
		return nil, errShort
	}
	b := p.b[p.i : p.i+size]
	p.i += size
	return b, nil
}

// skip skips any value, which lies depth levels deep.
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

// key reads a map's key; the name is empty if it is not a short string. Use it only
// for comparisons while the text is in memory.
func (p *packed) key(depth int) (string, error) {
	start := p.i
	h, err := p.head()
	if err == nil && h.kind == kindString {
		var b []byte
		if b, err = p.bytes(h.size); err == nil {
			if len(b) > len("weight") {
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
		return "", fail(stream.StageDecode, stream.ReasonSyntax, "", err)
	}
	return "", nil
}
