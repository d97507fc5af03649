package state_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	. "github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/testkit/alloctest"
)

// everything has a field of each kind.
type everything struct {
	u   uint64
	i   int64
	n   int
	b   bool
	f64 float64
	f32 float32
	s   string
	raw []byte
	d   []float64
	f   []float32
	us  []uint64
	is  []int32
	bs  []bool
	sub struct{ a, b uint64 }
	rng *rng.Source
	l   []item
}

type item struct {
	name string
	w    float64
}

func (e *everything) fields(f *Fields) {
	f.Uint64("u", &e.u)
	f.Int64("i", &e.i)
	f.Int("n", &e.n)
	f.Bool("b", &e.b)
	f.Float64("f64", &e.f64)
	f.Float32("f32", &e.f32)
	f.String("s", &e.s)
	f.Bytes("raw", &e.raw)
	f.Float64s("d", &e.d)
	f.Float32s("f", &e.f)
	f.Uint64s("us", &e.us)
	f.Int32s("is", &e.is)
	f.Bools("bs", &e.bs)
	f.Group("sub", func(f *Fields) {
		f.Uint64("a", &e.sub.a)
		f.Uint64("b", &e.sub.b)
	})
	f.Binary("rng", e.rng)
	f.List("l", len(e.l), 4, func(n int) { e.l = make([]item, n) }, func(f *Fields, i int) {
		f.String("name", &e.l[i].name)
		f.Float64("w", &e.l[i].w)
	})
}

func sample(r *rand.Rand) *everything {
	e := &everything{
		u: r.Uint64() >> r.IntN(64), i: int64(r.Uint64()) >> r.IntN(64), n: r.IntN(300) - 150, b: r.IntN(2) == 0,
		f64: []float64{0, math.Copysign(0, -1), 1, math.Inf(-1), math.MaxFloat64, 5e-324, r.NormFloat64()}[r.IntN(7)],
		f32: float32(r.NormFloat64()), s: strings.Repeat("x", r.IntN(70)), rng: rng.New(r.Uint64(), "t"),
	}
	for range r.IntN(40) {
		e.raw = append(e.raw, byte(r.Uint32()))
		e.d = append(e.d, r.NormFloat64())
		e.f = append(e.f, float32(r.NormFloat64()))
		e.us = append(e.us, r.Uint64())
		e.is = append(e.is, int32(r.Uint32()))
		e.bs = append(e.bs, r.IntN(2) == 0)
	}
	for range r.IntN(5) {
		e.l = append(e.l, item{fmt.Sprint(r.Uint32()), r.Float64()})
	}
	e.sub.a, e.sub.b = r.Uint64(), r.Uint64()
	return e
}

func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		want := sample(r)
		data, err := Append([]byte("head"), want.fields)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := Append(nil, want.fields)
		data, ok := bytes.CutPrefix(data, []byte("head"))
		if !ok || !bytes.Equal(data, again) {
			t.Fatal("the encoding is not a function of the state")
		}
		got := sample(r) // what was there goes
		if err := Decode(data, got.fields); err != nil {
			t.Fatal(err)
		}
		back, _ := Append(nil, got.fields)
		if !bytes.Equal(back, data) || math.Float64bits(got.f64) != math.Float64bits(want.f64) || got.s != want.s || got.n != want.n || got.i != want.i {
			t.Fatalf("%+v became %+v", want, got)
		}
		if !slices.Equal(got.d, want.d) || !slices.Equal(got.f, want.f) || !slices.Equal(got.is, want.is) || !slices.Equal(got.us, want.us) ||
			!slices.Equal(got.bs, want.bs) || !slices.Equal(got.l, want.l) || !bytes.Equal(got.raw, want.raw) || got.sub != want.sub {
			t.Fatalf("%+v became %+v", want, got)
		}
		if got.rng.Uint64() != want.rng.Uint64() {
			t.Fatal("the generator went astray")
		}
	}
}

// TestNested: a nested value has the bytes that Bytes writes, with every length of header, and
// comes back; errors name the field.
func TestNested(t *testing.T) {
	for _, n := range []int{0, 1, 255, 256, 65535, 65536, 1 << 20} {
		value := bytes.Repeat([]byte{7}, n)
		fields := func(nested bool, v *[]byte) func(f *Fields) {
			return func(f *Fields) {
				before, after := "before", 42
				f.String("before", &before)
				if nested {
					f.Nested("value", func(dst []byte) ([]byte, error) { return append(dst, *v...), nil }, func(data []byte) error {
						*v = data
						return nil
					})
				} else {
					f.Bytes("value", v)
				}
				if f.Int("after", &after); before != "before" || after != 42 {
					t.Errorf("%d bytes: %q, %d around them", n, before, after)
				}
			}
		}
		want, err := Append([]byte("x"), fields(false, &value))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Append([]byte("x"), fields(true, &value))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: encodings of %d and %d bytes differ: %v", n, len(got), len(want), err)
		}
		var back []byte
		if err := Decode(got[1:], fields(true, &back)); err != nil || !bytes.Equal(back, value) {
			t.Errorf("%d bytes came back as %d: %v", n, len(back), err)
		}
	}
	refuse := errors.New("no")
	bad := func(f *Fields) {
		f.Nested("value", func(dst []byte) ([]byte, error) { return dst, refuse }, func([]byte) error { return refuse })
	}
	if _, err := Append(nil, bad); !errors.Is(err, refuse) || !strings.Contains(err.Error(), "value") {
		t.Error(err)
	}
	good, _ := Append(nil, func(f *Fields) { f.Bytes("value", new([]byte)) })
	if err := Decode(good, bad); !errors.Is(err, refuse) || !strings.Contains(err.Error(), "value") {
		t.Error(err)
	}
}

// TestNext: a field that is written only where it says something is read where
// it is there, whatever comes around it.
func TestNext(t *testing.T) {
	type some struct{ a, b, c uint64 }
	fields := func(s *some) func(f *Fields) {
		return func(f *Fields) {
			for _, v := range []struct {
				name string
				v    *uint64
			}{{"a", &s.a}, {"b", &s.b}, {"c", &s.c}} {
				if f.Next(v.name) || !f.Decoding() && *v.v > 0 {
					f.Uint64(v.name, v.v)
				}
			}
		}
	}
	for k := range 8 {
		want := some{uint64(k & 1), uint64(k & 2), uint64(k & 4)}
		data, err := Append(nil, fields(&want))
		var got some
		if err := errors.Join(err, Decode(data, fields(&got))); err != nil || got != want {
			t.Errorf("%v came back as %v, %v", want, got, err)
		}
		if err := Decode(append(data, 0xc1), fields(&got)); err == nil {
			t.Errorf("%v with something behind it is read", want)
		}
	}
}

// NaN payloads survive, and arrays longer than the reading buffer.
func TestBits(t *testing.T) {
	nan := math.Float64frombits(0x7ff8dead0000beef)
	want := []float64{nan}
	for i := range 3000 {
		want = append(want, float64(i))
	}
	narrow := []float32{math.Float32frombits(0x7fc0beef)}
	data, err := Append(nil, func(f *Fields) { f.Float64s("a", &want); f.Float64("b", &nan); f.Float32s("c", &narrow) })
	if err != nil {
		t.Fatal(err)
	}
	var got []float64
	var b float64
	var c []float32
	if err := Decode(data, func(f *Fields) { f.Float64s("a", &got); f.Float64("b", &b); f.Float32s("c", &c) }); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			t.Fatalf("element %d: %x became %x", i, math.Float64bits(want[i]), math.Float64bits(got[i]))
		}
	}
	if math.Float64bits(b) != math.Float64bits(nan) || math.Float32bits(c[0]) != 0x7fc0beef {
		t.Errorf("NaN became %x and %x", math.Float64bits(b), math.Float32bits(c[0]))
	}
}

// The wire form is what the package promises: (name, value) pairs that any
// msgpack reader can follow.
func TestWireForm(t *testing.T) {
	k, a := uint64(3), []float32{1}
	data, err := Append(nil, func(f *Fields) { f.Uint64("k", &k); f.Float32s("a", &a) })
	if err != nil {
		t.Fatal(err)
	}
	dec := msgpack.NewDecoder(bytes.NewReader(data))
	var got []any
	for range 4 {
		v, err := dec.DecodeInterface()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, v)
	}
	if want := []any{"k", uint64(3), "a", []byte{0, 0, 0x80, 0x3f}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%#v, want %#v", got, want)
	}
}

func TestErrorsNameTheField(t *testing.T) {
	var u uint64
	var d []float64
	good, _ := Append(nil, func(f *Fields) {
		f.Group("outer", func(f *Fields) { f.Uint64("a", &u); f.Float64s("d", &d) })
	})
	for want, fields := range map[string]func(*Fields){
		`field outer.b: found "a"`: func(f *Fields) { f.Group("outer", func(f *Fields) { f.Uint64("b", &u) }) },
		"field outer.a":            func(f *Fields) { f.Group("outer", func(f *Fields) { f.String("a", new(string)) }) },
		"bytes after the last":     func(f *Fields) { f.Group("outer", func(f *Fields) { f.Uint64("a", &u) }) },
		"field e: EOF": func(f *Fields) {
			f.Group("outer", func(f *Fields) { f.Uint64("a", &u); f.Float64s("d", &d) })
			f.Uint64("e", &u)
		},
		"field outer.a: no good": func(f *Fields) {
			f.Group("outer", func(f *Fields) {
				f.Uint64("a", &u)
				f.Fail("a", errors.New("no good"))
				f.Fail("a", errors.New("worse")) // the first error counts
			})
		},
	} {
		if err := Decode(good, fields); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	bad := []byte{0xa1, 'd', 0xc4, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	if err := Decode(bad, func(f *Fields) { f.Float64s("d", &d) }); err == nil || !strings.Contains(err.Error(), "9 bytes do not hold elements of 8") {
		t.Errorf("an array cut in an element: %v", err)
	}
}

// Lengths that the data cannot hold are refused before anything is allocated.
func TestHostileLengths(t *testing.T) {
	huge := []byte{0xc6, 0xff, 0xff, 0xff, 0xff} // bin 32
	list := []byte{0xdd, 0x7f, 0xff, 0xff, 0xff} // array 32
	str := []byte{0xdb, 0xff, 0xff, 0xff, 0xff}  // str 32
	e := sample(rand.New(rand.NewPCG(2, 2)))
	for name, c := range map[string]struct {
		value  []byte
		fields func(*Fields)
	}{
		"bytes":    {huge, func(f *Fields) { f.Bytes("x", &e.raw) }},
		"string":   {str, func(f *Fields) { f.String("x", &e.s) }},
		"float64s": {huge, func(f *Fields) { f.Float64s("x", &e.d) }},
		"float32s": {huge, func(f *Fields) { f.Float32s("x", &e.f) }},
		"int32s":   {huge, func(f *Fields) { f.Int32s("x", &e.is) }},
		"bools":    {huge, func(f *Fields) { f.Bools("x", &e.bs) }},
		"binary":   {huge, func(f *Fields) { f.Binary("x", e.rng) }},
		"list": {list, func(f *Fields) {
			f.List("x", 0, 1, func(n int) { t.Errorf("room made for %d elements", n) }, func(*Fields, int) {})
		}},
	} {
		data := append([]byte{0xa1, 'x'}, c.value...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := Decode(data, c.fields)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "field x") {
			t.Errorf("%s: %v", name, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<16 {
			t.Errorf("%s: %d bytes allocated for %d", name, n, len(data))
		}
	}
}

func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 3 {
		data, err := Append(nil, sample(r).fields)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e := &everything{rng: rng.New(1, "t")}
		var err error
		alloctest.Check(t, len(data), func() { err = Decode(data, e.fields) })
		if err != nil {
			return
		}
		// What is accepted has one encoding, which decodes to the same.
		once, err := Append(nil, e.fields)
		if err != nil {
			t.Fatal(err)
		}
		if err := Decode(once, e.fields); err != nil {
			t.Fatal(err)
		}
		if twice, _ := Append(nil, e.fields); !bytes.Equal(once, twice) {
			t.Fatal("the encoding changes from one reading to the next")
		}
	})
}

// Arrays are binaries of little-endian elements, on every machine.
func TestArrays(t *testing.T) {
	for _, c := range []struct {
		fields func(*Fields)
		size   int
		want   string
	}{
		{func(f *Fields) { f.Float64s("a", &[]float64{-2, 1}) }, 8, "\x00\x00\x00\x00\x00\x00\x00\xc0\x00\x00\x00\x00\x00\x00\xf0\x3f"},
		{func(f *Fields) { f.Float32s("a", &[]float32{-2, 1}) }, 4, "\x00\x00\x00\xc0\x00\x00\x80\x3f"},
		{func(f *Fields) { f.Uint64s("a", &[]uint64{1, 1 << 56}) }, 8, "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"},
		{func(f *Fields) { f.Int32s("a", &[]int32{-2, 258}) }, 4, "\xfe\xff\xff\xff\x02\x01\x00\x00"},
		{func(f *Fields) { f.Bools("a", &[]bool{true, false}) }, 1, "\x01\x00"},
	} {
		whole := func(data string) []byte { return []byte("\xa1a\xc4" + string(rune(len(data))) + data) }
		got, err := Append(nil, c.fields)
		if want := whole(c.want); err != nil || !bytes.Equal(got, want) {
			t.Errorf("encoded %x, %v, want %x", got, err, want)
		}
		// What does not hold whole elements is refused.
		for n := range len(c.want) + 1 {
			if err := Decode(whole(c.want[:n]), c.fields); (err == nil) != (n%c.size == 0) {
				t.Errorf("%d bytes for elements of %d: %v", n, c.size, err)
			}
		}
	}
}
