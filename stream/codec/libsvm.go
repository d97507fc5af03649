package codec

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"

	"github.com/streamsvm/streamsvm/stream"
)

// libsvm reads and writes LIBSVM / SVMlight text, one example per value:
//
//	[label] [qid:N] index:value index:value … [# comment]
//
// Indices start at 1 and strictly increase. A label of "?" or none at all
// makes the example unlabelled. A query id and a comment are ignored.
// Fields are separated by spaces or tabs; the end of line may be included.
// The vector is always sparse, and lists every feature that the text lists,
// zeros too. The form carries no ID.
type libsvm struct{ common }

func (*libsvm) Name() string { return "libsvm" }

func blank(c byte) bool { return c == ' ' || c == '\t' }

// skipBlank returns the position of the first byte from i on that is not a blank.
func skipBlank(b []byte, i int) int {
	for i < len(b) && blank(b[i]) {
		i++
	}
	return i
}

// token returns the bytes from i to the next blank.
func token(b []byte, i int) []byte {
	for j := i; j < len(b); j++ {
		if blank(b[j]) {
			return b[i:j]
		}
	}
	return b[i:]
}

// trimLine cuts a final "\n" or "\r\n".
func trimLine(b []byte) []byte {
	n := len(b)
	if n > 0 && b[n-1] == '\n' {
		n--
	}
	if n > 0 && b[n-1] == '\r' {
		n--
	}
	return b[:n]
}

// Decode implements stream.Decoder.
func (c *libsvm) Decode(value []byte, ex *stream.Example) error { return c.DecodeIn(nil, value, ex) }

// DecodeIn implements stream.ArenaDecoder.
func (c *libsvm) DecodeIn(a *stream.Arena, value []byte, ex *stream.Example) error {
	if err := checkSize(value); err != nil {
		return err
	}
	b := trimLine(value)
	if k := bytes.IndexByte(b, '#'); k >= 0 {
		b = b[:k]
	}
	i := skipBlank(b, 0)
	if i == len(b) {
		return fail(stream.StageDecode, stream.ReasonEmpty, "", errEmpty)
	}
	y, labelled, n, err := c.label(b[i:])
	if err != nil {
		return err
	}
	idx, val, err := c.features(a, b, i+n)
	if err != nil {
		return err
	}
	ex.ID, ex.X.Idx, ex.X.Val, ex.Y, ex.Labelled, ex.Class, ex.Weight = "", idx, val, y.y, labelled, y.class, 0
	a.Keep(&ex.X)
	return nil
}

// label reads the label that b begins with, if there is one, and returns its length.
func (c *libsvm) label(b []byte) (y label, labelled bool, n int, err error) {
	if b[0] == '?' && (len(b) == 1 || blank(b[1])) {
		return y, false, 1, nil
	}
	if !c.labels.numeric() {
		t := token(b, 0)
		if bytes.IndexByte(t, ':') >= 0 {
			return y, false, 0, nil
		}
		y, err = c.labels.word(t)
		return y, true, len(t), err
	}
	v, n := digit(b)
	if n == 0 {
		var number decimal
		if number, n = scan(b); n == 0 || n < len(b) && !blank(b[n]) {
			if t := token(b, 0); bytes.IndexByte(t, ':') < 0 {
				err = failf(stream.StageLabel, stream.ReasonSyntax, "y", "the label is %s, want a number or ?", quoted(t))
			}
			return y, false, 0, err
		}
		v = number.float64(b[:n])
	}
	y, err = c.labels.decode(v)
	return y, true, n, err
}

// features reads the features in b from i on.
func (c *libsvm) features(a *stream.Arena, b []byte, i int) (idx []int32, val []float32, err error) {
	i = skipBlank(b, i)
	if bytes.HasPrefix(b[i:], []byte("qid:")) {
		i += len(token(b, i))
	}
	// A feature takes at least four bytes, "1:1" and a blank, so the memory is bounded by
	// the length of the value, whatever the number of colons.
	size := (len(b) - i + 1) / 4
	if a == nil || size > few {
		size = min(size, bytes.Count(b[i:], colon))
	}
	idx, val = a.Idx(size), a.Val(size)
	last, short := int64(0), true // the previous value had one digit
	for {
		if short {
			i, last, idx, val = c.digits(b, i, last, idx, val)
		}
		i = skipBlank(b, i)
		if i == len(b) {
			return idx, val, nil
		}
		if len(b) >= 8 { // nearly all features have a form that can be read at once
			at := min(i, len(b)-8)
			w := binary.LittleEndian.Uint64(b[at:]) >> (8 * uint(i-at))
			if j, n := index8(w); n > 0 && j > last && j <= int64(c.maxDim) {
				k := i + n // position of the value
				v, m := float32(0), 0
				if k < len(b) && b[k]-'0' <= 9 && (k+1 == len(b) || blank(b[k+1])) {
					v, m = float32(b[k]-'0'), 1
				} else {
					v, m = short32(b[k:])
				}
				if end := k + m; m > 0 && (end == len(b) || blank(b[end])) {
					idx, val = append(idx, int32(j-1)), append(val, v)
					last, i, short = j, end, m == 1
					continue
				}
			}
		}
		j, v, n, err := c.feature(b[i:], last)
		if err != nil {
			return nil, nil, err
		}
		idx, val = append(idx, int32(j-1)), append(val, v)
		last, i = j, i+n
	}
}

// digits reads features from i on as long as each has an index of at most four digits,
// a one-digit value, and a space, with two more bytes behind, as categories do. It calls
// no function, and examines eight bytes at once.
func (c *libsvm) digits(b []byte, i int, last int64, idx []int32, val []float32) (int, int64, []int32, []float32) {
	const tops = 0x8080808080808080
	for len(b)-i >= 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		// The bytes before the colon and the one after it must be at most 9, the others
		// 0. Adding a byte of like sets the top bit if it is more.
		var x, like, j uint64
		var n int
		switch {
		case byte(w>>24) == ':':
			x, like, n = w&0xffff_ffffffff^0x20_30_3a_303030, 0x7f_76_7f_767676, 6
			j = x&0xff*100 + x>>8&0xff*10 + x>>16&0xff
		case byte(w>>16) == ':':
			x, like, n = w&0xff_ffffffff^0x20_30_3a_3030, 0x7f_76_7f_7676, 5
			j = x&0xff*10 + x>>8&0xff
		case byte(w>>8) == ':':
			x, like, n = w&0xffffffff^0x20_30_3a_30, 0x7f_76_7f_76, 4
			j = x & 0xff
		case byte(w>>32) == ':':
			x, like, n = w&0xffffff_ffffffff^0x20_30_3a_30303030, 0x7f_76_7f_76767676, 7
			j = x&0xff*1000 + x>>8&0xff*100 + x>>16&0xff*10 + x>>24&0xff
		}
		if n == 0 || (x+like|x)&tops != 0 || int64(j) <= last || j > uint64(c.maxDim) {
			break
		}
		idx, val = append(idx, int32(j)-1), append(val, float32(b[i+n-2]-'0'))
		i, last = i+n, int64(j)
	}
	return i, last, idx, val
}

// feature reads the feature that b begins with, index:value, and returns its length.
// The index must be larger than last.
func (c *libsvm) feature(b []byte, last int64) (j int64, v float32, n int, err error) {
	for n < len(b) && b[n]-'0' <= 9 {
		if j = j*10 + int64(b[n]-'0'); j > int64(c.maxDim) {
			return 0, 0, 0, c.indexTooLarge(quoted(token(b, 0)))
		}
		n++
	}
	switch {
	case n == 0 || n == len(b) || b[n] != ':':
		err = failf(stream.StageDecode, stream.ReasonSyntax, "", "%s is not index:value", quoted(token(b, 0)))
	case j == 0:
		err = failf(stream.StageDecode, stream.ReasonIndex, feature(int(j)), "indices start at 1")
	case j <= last:
		err = failf(stream.StageDecode, stream.ReasonOrder, feature(int(j)), "the index follows %d, indices must increase", last)
	}
	if err != nil {
		return 0, 0, 0, err
	}
	t := token(b, n+1)
	number, size := scan(t)
	if size == 0 || size < len(t) {
		if nonFinite(t) {
			return 0, 0, 0, failf(stream.StageFeature, stream.ReasonNotFinite, feature(int(j)), "the value is %s", quoted(t))
		}
		return 0, 0, 0, failf(stream.StageDecode, stream.ReasonSyntax, feature(int(j)), "%s is not a number", quoted(t))
	}
	if v = number.float32(t); v-v != 0 {
		err = failf(stream.StageFeature, stream.ReasonNotFinite, feature(int(j)), "%s overflows a float32", quoted(t))
	}
	return j, v, n + 1 + size, err
}

var colon = []byte{':'}

// digit reads a one-digit number, with or without a sign, that is followed by a blank,
// as most labels are; n is 0 if b does not begin with one.
func digit(b []byte) (v float64, n int) {
	minus := 0
	if c := b[0]; c == '+' || c == '-' {
		n = 1
	}
	if len(b) < n+2 || b[n]-'0' > 9 || !blank(b[n+1]) {
		return 0, 0
	}
	if b[0] == '-' {
		minus = 1
	}
	return math.Float64frombits(math.Float64bits(float64(b[n]-'0')) | uint64(minus)<<63), n + 1
}

// few is the number of features up to which memory is allocated without counting them.
const few = 64

// index8 returns the index that eight characters begin with, and the length of it and
// the colon behind it; 0 if one of them is missing.
func index8(w uint64) (j int64, n int) {
	x, top := notDigits(w)
	// The processor predicts these branches for short indices, so it need not wait for the
	// length of one index before it reads the next.
	switch {
	case byte(w>>8) == ':' && top&0x80 == 0:
		return int64(x & 0xff), 2
	case byte(w>>16) == ':' && top&0x8080 == 0:
		return int64(x&0xff*10 + x>>8&0xff), 3
	case byte(w>>24) == ':' && top&0x808080 == 0:
		return int64(x&0xff*100 + x>>8&0xff*10 + x>>16&0xff), 4
	}
	v, n := digits8(w)
	if n == 0 || byte(w>>(8*uint(n))) != ':' {
		return 0, 0
	}
	return int64(v), n + 1
}

// Append implements stream.Encoder. A dense vector is written without its
// zeros (−0 stays), so that it comes back sparse; an unlabelled example gets "?".
func (c *libsvm) Append(dst []byte, ex *stream.Example) ([]byte, error) {
	if err := c.checkVec(ex.X); err != nil {
		return dst, err
	}
	start := len(dst)
	if !ex.Labelled {
		dst = append(dst, '?')
	} else {
		if ex.Y > 0 && c.labels.kind == numbers && !c.labels.regress && !c.labels.many() && c.labels.neg < 0 && c.labels.pos > 0 {
			dst = append(dst, '+')
		}
		var err error
		if dst, err = c.labels.appendText(dst, ex); err != nil {
			return dst[:start], err
		}
	}
	for k, v := range ex.X.Val {
		j := k
		if ex.X.Idx != nil {
			j = int(ex.X.Idx[k])
		} else if math.Float32bits(v) == 0 {
			continue
		}
		dst = append(dst, ' ')
		dst = strconv.AppendInt(dst, int64(j)+1, 10)
		dst = append(dst, ':')
		dst = appendFloat32(dst, v)
	}
	return dst, nil
}
