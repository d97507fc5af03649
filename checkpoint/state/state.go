// Package state serialises the state of learners: a type describes its fields once,
// in one method, and encoding, decoding and listing follow from that description.
//
//	func (l *Learner) fields(f *state.Fields) {
//		f.Uint64("k", &l.k)
//		f.Float64s("alpha", &l.alpha)
//		f.Group("kernel", l.kernel.fields)
//	}
//
// state.Append(dst, l.fields) and state.Decode(data, l.fields) do the rest. The
// wire form is a msgpack sequence of (name, value) pairs, so that it can be read
// without the program that wrote it. Arrays of numbers are msgpack bin with
// little-endian elements, which preserves every bit. There are no maps, so equal
// states have equal bytes.
//
// The API is stable.
package state

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// Fields is the visitor that a type's description is applied to, to write the
// values or to read them.
type Fields struct {
	buf *bytes.Buffer // encoding
	enc *msgpack.Encoder

	r   *bytes.Reader // decoding
	dec *msgpack.Decoder

	path string
	err  error
}

// Append appends to dst the encoding of the state that fields describes.
func Append(dst []byte, fields func(*Fields)) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	f := &Fields{buf: buf, enc: msgpack.NewEncoder(buf)}
	fields(f)
	return buf.Bytes(), f.err
}

// Decode sets the state that fields describes from data, which must contain nothing
// else. After an error the state is undefined; the error names the field. Whatever
// lengths data claims, Decode allocates at most a small multiple of len(data).
func Decode(data []byte, fields func(*Fields)) error {
	r := bytes.NewReader(data)
	f := &Fields{r: r, dec: msgpack.NewDecoder(r)}
	fields(f)
	if f.err == nil && r.Len() > 0 {
		f.err = fmt.Errorf("state: %d bytes after the last field", r.Len())
	}
	return f.err
}

// Decoding reports whether values are being read, not written.
func (f *Fields) Decoding() bool { return f.r != nil }

// More reports whether there is anything left to read, for trailing fields that
// older encodings lack. It is false when encoding.
func (f *Fields) More() bool { return f.err == nil && f.Decoding() && f.r.Len() > 0 }

// Next reports whether the next field to read is called name, for fields that are
// not always written. It is false when encoding.
func (f *Fields) Next(name string) bool {
	if !f.More() {
		return false
	}
	at := f.r.Size() - int64(f.r.Len())
	got, err := f.str()
	if _, seek := f.r.Seek(at, io.SeekStart); seek != nil {
		err = seek
	}
	return err == nil && got == name
}

// Err returns the first error.
func (f *Fields) Err() error { return f.err }

// Fail records err as an error of the field name, unless there has been an error
// before.
func (f *Fields) Fail(name string, err error) {
	if f.err == nil && err != nil {
		f.err = fmt.Errorf("state: field %s%s: %w", f.path, name, err)
	}
}

// head writes the field's name, or reads and checks it. The caller stops if it
// returns false.
func (f *Fields) head(name string) bool {
	if f.err != nil {
		return false
	}
	if !f.Decoding() {
		f.Fail(name, f.enc.EncodeString(name))
		return f.err == nil
	}
	got, err := f.str()
	if err == nil && got != name {
		err = fmt.Errorf("found %q in its place", got)
	}
	f.Fail(name, err)
	return f.err == nil
}

var errLength = errors.New("length exceeds the data")

func (f *Fields) bin() ([]byte, error) {
	n, err := f.dec.DecodeBytesLen()
	if err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, nil
	}
	if n > f.r.Len() {
		return nil, errLength
	}
	b := make([]byte, n)
	_, err = f.r.Read(b)
	return b, err
}

func (f *Fields) str() (string, error) {
	b, err := f.bin()
	return string(b), err
}

// value describes a value that put writes and get reads.
func (f *Fields) value(name string, put, get func() error) {
	if !f.head(name) {
		return
	}
	if f.Decoding() {
		f.Fail(name, get())
	} else {
		f.Fail(name, put())
	}
}

// Uint64 describes *v.
func (f *Fields) Uint64(name string, v *uint64) {
	f.value(name, func() error { return f.enc.EncodeUint64(*v) }, func() (err error) { *v, err = f.dec.DecodeUint64(); return err })
}

// Int64 describes *v.
func (f *Fields) Int64(name string, v *int64) {
	f.value(name, func() error { return f.enc.EncodeInt64(*v) }, func() (err error) { *v, err = f.dec.DecodeInt64(); return err })
}

// Int describes *v.
func (f *Fields) Int(name string, v *int) {
	x := int64(*v)
	f.Int64(name, &x)
	// Encoding must not write to v, because the state may be shared.
	if f.Decoding() {
		*v = int(x)
	}
}

// UnixMilli describes *v, in milliseconds since 1970; it decodes as UTC.
func (f *Fields) UnixMilli(name string, v *time.Time) {
	x := v.UnixMilli()
	f.Int64(name, &x)
	if f.Decoding() {
		*v = time.UnixMilli(x).UTC()
	}
}

// Bool describes *v.
func (f *Fields) Bool(name string, v *bool) {
	f.value(name, func() error { return f.enc.EncodeBool(*v) }, func() (err error) { *v, err = f.dec.DecodeBool(); return err })
}

// Float64 describes *v, to the bit.
func (f *Fields) Float64(name string, v *float64) {
	f.value(name, func() error { return f.enc.EncodeFloat64(*v) }, func() (err error) { *v, err = f.dec.DecodeFloat64(); return err })
}

// Float32 describes *v, to the bit.
func (f *Fields) Float32(name string, v *float32) {
	f.value(name, func() error { return f.enc.EncodeFloat32(*v) }, func() (err error) { *v, err = f.dec.DecodeFloat32(); return err })
}

// String describes *v.
func (f *Fields) String(name string, v *string) {
	f.value(name, func() error { return f.enc.EncodeString(*v) }, func() (err error) { *v, err = f.str(); return err })
}

// Bytes describes *v; an empty slice decodes as nil.
func (f *Fields) Bytes(name string, v *[]byte) {
	f.value(name, func() error {
		if *v == nil {
			return f.enc.EncodeBytesLen(0) // EncodeBytes would write nil
		}
		return f.enc.EncodeBytes(*v)
	}, func() (err error) { *v, err = f.bin(); return err })
}

// binHead is the size of the longest header of a msgpack bin.
const binHead = 5

// Nested describes a value that has its own encoding, as Bytes would with that encoding, but
// without a copy of it. appendTo appends the encoding to dst; decode sets the value.
func (f *Fields) Nested(name string, appendTo func(dst []byte) ([]byte, error), decode func(data []byte) error) {
	if f.Decoding() {
		var data []byte
		if f.Bytes(name, &data); f.err == nil {
			f.Fail(name, decode(data))
		}
		return
	}
	if !f.head(name) {
		return
	}
	start := f.buf.Len()
	out, err := appendTo(append(f.buf.Bytes(), make([]byte, binHead)...))
	if err != nil {
		f.Fail(name, err)
		return
	}
	value := out[start+binHead:]
	*f.buf = *bytes.NewBuffer(out[:start])
	f.Fail(name, f.enc.EncodeBytesLen(len(value)))
	n := copy(out[f.buf.Len():], value)
	*f.buf = *bytes.NewBuffer(out[:f.buf.Len()+n])
}

// array describes a slice with elements of size bytes.
func array[T any](f *Fields, name string, v *[]T, size int, put func([]byte, T), get func([]byte) T) {
	if !f.head(name) {
		return
	}
	if !f.Decoding() {
		f.Fail(name, f.enc.EncodeBytesLen(size*len(*v)))
		f.buf.Grow(size * len(*v))
		b := f.buf.AvailableBuffer()[:size*len(*v)]
		for i, x := range *v {
			put(b[size*i:], x)
		}
		f.buf.Write(b)
		return
	}
	n, err := f.dec.DecodeBytesLen()
	switch {
	case err != nil:
	case n > f.r.Len():
		err = errLength
	case n > 0 && n%size != 0:
		err = fmt.Errorf("%d bytes do not hold elements of %d", n, size)
	}
	if err != nil {
		f.Fail(name, err)
		return
	}
	*v = (*v)[:0]
	if n <= 0 {
		return
	}
	*v = slices.Grow(*v, n/size)[:n/size]
	var chunk [4096]byte
	for i := 0; n > 0; {
		b := chunk[:min(n, len(chunk))]
		if _, err := f.r.Read(b); err != nil {
			f.Fail(name, err)
			return
		}
		n -= len(b)
		for ; len(b) > 0; b = b[size:] {
			(*v)[i] = get(b)
			i++
		}
	}
}

// Float64s describes *v, to the bit. An empty slice decodes with length 0.
func (f *Fields) Float64s(name string, v *[]float64) {
	array(f, name, v, 8,
		func(b []byte, x float64) { binary.LittleEndian.PutUint64(b, math.Float64bits(x)) },
		func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) })
}

// Float32s describes *v, to the bit. An empty slice decodes with length 0.
func (f *Fields) Float32s(name string, v *[]float32) {
	array(f, name, v, 4,
		func(b []byte, x float32) { binary.LittleEndian.PutUint32(b, math.Float32bits(x)) },
		func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) })
}

// Uint64s describes *v.
func (f *Fields) Uint64s(name string, v *[]uint64) {
	array(f, name, v, 8, binary.LittleEndian.PutUint64, binary.LittleEndian.Uint64)
}

// Int32s describes *v.
func (f *Fields) Int32s(name string, v *[]int32) {
	array(f, name, v, 4,
		func(b []byte, x int32) { binary.LittleEndian.PutUint32(b, uint32(x)) },
		func(b []byte) int32 { return int32(binary.LittleEndian.Uint32(b)) })
}

// Bools describes *v, one byte an element.
func (f *Fields) Bools(name string, v *[]bool) {
	array(f, name, v, 1,
		func(b []byte, x bool) {
			b[0] = 0
			if x {
				b[0] = 1
			}
		},
		func(b []byte) bool { return b[0] != 0 })
}

// Group describes a nested state; its fields carry the prefix "name.".
func (f *Fields) Group(name string, fields func(*Fields)) {
	if !f.head(name) {
		return
	}
	outer := f.path
	f.path += name + "."
	fields(f)
	f.path = outer
}

// binaryState is implemented by the standard library's serialisable types.
type binaryState interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

// Binary describes v, for example a random generator.
func (f *Fields) Binary(name string, v binaryState) {
	var b []byte
	var err error
	if !f.Decoding() {
		b, err = v.MarshalBinary()
		f.Fail(name, err)
	}
	f.Bytes(name, &b)
	if f.Decoding() && f.err == nil {
		f.Fail(name, v.UnmarshalBinary(b))
	}
}

// List describes a slice of n elements: it writes or reads the length, calls resize
// when reading, and visits the elements in order. least is the smallest number of
// bytes that an element takes on the wire, at least 1. A length that does not fit
// into the data is refused before resize is called.
func (f *Fields) List(name string, n int, least int, resize func(n int), elem func(f *Fields, i int)) {
	if !f.head(name) {
		return
	}
	if !f.Decoding() {
		f.Fail(name, f.enc.EncodeArrayLen(n))
	} else {
		var err error
		n, err = f.dec.DecodeArrayLen()
		if err == nil && (n < 0 || n > f.r.Len()/max(least, 1)) {
			err = errLength
		}
		if err != nil {
			f.Fail(name, err)
			return
		}
		resize(n)
	}
	outer := f.path
	for i := 0; i < n && f.err == nil; i++ {
		f.path = outer + name + "." // without the index, which would cost an allocation per element
		elem(f, i)
	}
	f.path = outer
}
