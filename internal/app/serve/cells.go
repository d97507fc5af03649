package serve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

var errShort = errors.New("it has fewer values than its shape says")

// cells are the values of a column in rows of k each, read one row after the
// other. They have been checked.
type cells struct {
	data []byte // a JSON list, or binary values
	k    int
	i    int // where in data the next row begins
	// strip says that the brackets of lists in a JSON list are left out; but those
	// of an empty one stay with empty.
	strip, empty bool
	datatype     string // of binary values, else ""
	null         bool   // NaN is null
}

// next appends the values of the next row, with commas between them.
func (c *cells) next(b []byte) []byte {
	if c.datatype != "" {
		return c.binary(b)
	}
	if c.i == 0 {
		c.i = skipSpace(c.data, skipSpace(c.data, 0)+1)
	}
	first, end := c.i, endOf(c.data, c.i)
	rest := func() {
		if c.i = skipSpace(c.data, end); c.i < len(c.data) && c.data[c.i] == ',' {
			c.i = skipSpace(c.data, c.i+1)
		}
	}
	rest()
	if c.strip && c.data[first] == '[' {
		if end-first > 2 || !c.empty {
			first, end = first+1, end-1
		}
		return append(b, c.data[first:end]...)
	}
	for range c.k - 1 {
		end = endOf(c.data, c.i)
		rest()
	}
	return append(b, c.data[first:end]...)
}

// list checks a list of values, or of lists of them: n rows of k values each.
func list(data []byte, n, k int) (cells, error) {
	c := cells{data: data, k: k, strip: true}
	if len(data) == 0 || data[0] != '[' {
		return c, errors.New("its data is no list")
	}
	if n > len(data)/k {
		return c, errShort
	}
	nested, rows, count := false, 0, 0
	err := Items(data, func(item []byte) error {
		if count == 0 {
			nested = item[0] == '['
		}
		if nested != (item[0] == '[') {
			return errors.New("some of its values are in lists of their own")
		}
		if nested {
			inner := 0
			_ = Items(item, func([]byte) error { inner++; return nil })
			if inner != k {
				return fmt.Errorf("row %d has %d values, want %d", rows, inner, k)
			}
			count += k
		} else {
			count++
		}
		if rows = count / k; rows > n {
			return errors.New("it has more values than its shape says")
		}
		return nil
	})
	if err == nil && count != n*k {
		err = errShort
	}
	return c, err
}

// unpack checks binary values, which are little-endian: n rows of k values. In
// JSON, NaN is null in events, as what is missing there.
func unpack(datatype string, b []byte, n, k int, null bool) (cells, error) {
	c := cells{data: b, k: k, datatype: datatype, null: null}
	size := datatypes[datatype]
	least := size
	if size == 0 { // a text has its length before it
		least = 4
	}
	if n > len(b)/least/k {
		return c, errShort
	}
	if size > 0 {
		if len(b) != n*k*size {
			return c, fmt.Errorf("it has %d bytes, want %d", len(b), n*k*size)
		}
		return c, nil
	}
	for i := range n * k {
		if len(b) < 4 || uint64(binary.LittleEndian.Uint32(b)) > uint64(len(b)-4) {
			return c, errShort
		}
		s := b[4 : 4+binary.LittleEndian.Uint32(b)]
		if b = b[4+len(s):]; !utf8.Valid(s) {
			return c, fmt.Errorf("the text of row %d is not UTF-8", i/k)
		}
	}
	if len(b) > 0 {
		return c, fmt.Errorf("%d bytes come behind its last value", len(b))
	}
	return c, nil
}

// binary is next for binary values.
func (c *cells) binary(text []byte) []byte {
	size := datatypes[c.datatype]
	for j := range c.k {
		if j > 0 {
			text = append(text, ',')
		}
		b := c.data[c.i:]
		if size == 0 {
			n := 4 + int(binary.LittleEndian.Uint32(b))
			text = AppendString(text, string(b[4:n]))
			c.i += n
			continue
		}
		c.i += size
		var u uint64
		for m := size - 1; m >= 0; m-- {
			u = u<<8 | uint64(b[m])
		}
		switch shift := 64 - 8*size; {
		case c.datatype == "FP64":
			text = c.float(text, math.Float64frombits(u), 64)
		case c.datatype == "FP32":
			text = c.float(text, float64(math.Float32frombits(uint32(u))), 32)
		case c.datatype == "BOOL":
			text = strconv.AppendBool(text, u != 0)
		case c.datatype[0] == 'U':
			text = strconv.AppendUint(text, u, 10)
		default:
			text = strconv.AppendInt(text, int64(u)<<shift>>shift, 10)
		}
	}
	return text
}

func (c *cells) float(text []byte, v float64, bits int) []byte {
	switch {
	case v != v && c.null:
		return append(text, "null"...)
	case v != v:
		return append(text, "NaN"...)
	case v > math.MaxFloat64:
		return append(text, "Infinity"...)
	case v < -math.MaxFloat64:
		return append(text, "-Infinity"...)
	}
	return strconv.AppendFloat(text, v, 'g', -1, bits)
}
