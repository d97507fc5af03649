package model_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	. "github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/internal/testkit/alloctest"
	"github.com/streamsvm/streamsvm/internal/testkit/pointtest"
	"github.com/streamsvm/streamsvm/stream"
)

func TestLinear(t *testing.T) {
	m := NewLinear([]float64{0.5, 0, -2, 2}, 0.25)
	x := stream.Vec{Idx: []int32{0, 2, 9}, Val: []float32{1, 1, 100}}
	if f := m.Decision(x); f != -1.25 {
		t.Errorf("f = %g", f)
	}
	info := m.Info()
	if info.Kind != algos.Linear || info.Dim != 4 || info.Nonzero != 3 || info.Support != -1 {
		t.Errorf("%+v", info)
	}
	if l := m.Largest(2); len(l) != 2 || l[0] != (Weight{2, -2}) || l[1] != (Weight{3, 2}) {
		t.Errorf("largest %v", l)
	}
	if l := m.Largest(10); len(l) != 3 {
		t.Errorf("largest %v", l)
	}
	if f := NewLinear(nil, 0).Decision(x); f != 0 {
		t.Errorf("without weights f = %g", f)
	}
}

func TestEncoding(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		n     int
		share float64
		most  int // bytes
	}{
		{0, 0, 24}, {1, 1, 32}, {4095, 0, 24 + 8*4095}, {4097, 1, 24 + 8*4097}, {4097, 0.01, 2000},
		{1 << 18, 0.001, 40000}, {1 << 18, 0.3, 24 + 8<<18}, {1 << 22, 0, 600_000},
	} {
		m := NewLinear(pointtest.Weights(r, c.n, c.share), r.NormFloat64())
		if c.n > 0 {
			m.Weights()[c.n-1] = math.Copysign(0, -1) // keeps its sign
		}
		data, err := m.AppendBinary([]byte("x"))
		if err != nil || data[0] != 'x' || len(data)-1 > c.most {
			t.Fatalf("%d weights: %d bytes, error %v", c.n, len(data), err)
		}
		back, err := DecodeLinear(data[1:])
		if err != nil {
			t.Fatal(err)
		}
		again, _ := back.AppendBinary([]byte("x"))
		if !bytes.Equal(again, data) {
			t.Errorf("%d weights: another encoding", c.n)
		}
		xs := make([]stream.Vec, 20)
		for i := range xs {
			xs[i], _ = pointtest.Both(r, 50)
		}
		f := make([]float64, len(xs))
		m.Decisions(f, xs)
		for i, x := range xs {
			if back.Decision(x) != f[i] || m.Decision(x) != f[i] {
				t.Errorf("%d weights: decision %d differs", c.n, i)
			}
		}
	}
}

// A change of one weight must stay within its eight bytes.
func TestPlaces(t *testing.T) {
	w := pointtest.Weights(rand.New(rand.NewPCG(5, 6)), 5000, 0.5)
	a, _ := NewLinear(w, 1).AppendBinary(nil)
	w[77] = 5
	b, _ := NewLinear(w, 1).AppendBinary(nil)
	for i := range a {
		if a[i] != b[i] && (i < 24+8*77 || i >= 24+8*78) {
			t.Fatalf("byte %d changed", i)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	good, _ := NewLinear([]float64{1, 2}, 3).AppendBinary(nil)
	wide := make([]float64, 5000)
	wide[4999] = 1
	sparse, _ := NewLinear(wide, 0).AppendBinary(nil)
	with := func(data []byte, at int, b ...byte) []byte {
		data = bytes.Clone(data)
		copy(data[at:], b)
		return data
	}
	for name, data := range map[string][]byte{
		"empty": nil, "short": good[:23], "magic": with(good, 0, 'L'), "form": with(good, 4, 9),
		"more weights": with(good, 8, 3), "huge": with(good, 12, 255, 255, 255, 255), "torn": good[:len(good)-1],
		"longer": append(bytes.Clone(good), 0), "bias": with(good, 22, 0xf0, 0x7f), "weight": with(good, 30, 0xf8, 0x7f),
		"no bit": with(sparse, 24+624, 0), "bit too many": with(sparse, 24, 1), "bit beyond": with(sparse, 24+632-1, 0x80),
		"mask torn": sparse[:100], "sparse torn": sparse[:len(sparse)-8],
	} {
		if m, err := DecodeLinear(data); err == nil {
			t.Errorf("%s: accepted as %v", name, m.Info())
		}
	}
}

func FuzzDecodeLinear(f *testing.F) {
	for _, n := range []int{0, 3, 4100} {
		w := make([]float64, n)
		if n > 0 {
			w[n/2] = 1
		}
		data, _ := NewLinear(w, 0.5).AppendBinary(nil)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m algos.Model
		var err error
		alloctest.Check(t, len(data), func() { m, err = DecodeLinear(data) })
		if err != nil {
			return
		}
		out, err := m.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeLinear(out); err != nil {
			t.Fatal(err)
		}
	})
}
