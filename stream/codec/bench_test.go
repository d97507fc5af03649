package codec

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// benchExample returns an example of n features with six significant digits,
// as text files have them.
func benchExample(n int, sparse bool) *stream.Example {
	r := rand.New(rand.NewPCG(5, 0))
	ex := &stream.Example{Y: 1, Labelled: true}
	j := int32(-1)
	for range n {
		v, _ := strconv.ParseFloat(strconv.FormatFloat(r.Float64(), 'f', 6, 64), 32)
		ex.X.Val = append(ex.X.Val, float32(v))
		if sparse {
			j += 1 + int32(r.IntN(9))
			ex.X.Idx = append(ex.X.Idx, j)
		}
	}
	return ex
}

func BenchmarkDecode(b *testing.B) {
	for _, bb := range []struct {
		codec  string
		n      int
		sparse bool
	}{
		{"libsvm", 20, true}, {"libsvm", 500, true},
		{"json", 20, false}, {"json", 500, false}, {"json", 20, true},
		{"msgpack", 20, false}, {"msgpack", 500, false}, {"msgpack", 20, true},
		{"csv", 20, false}, {"csv", 500, false},
	} {
		form := "dense"
		if bb.sparse {
			form = "sparse"
		}
		b.Run(bb.codec+"/"+form+"/"+strconv.Itoa(bb.n), func(b *testing.B) {
			c := must(b, bb.codec, Options{CSV: CSVOptions{LabelColumn: "last"}})
			value, err := c.Append(nil, benchExample(bb.n, bb.sparse))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(value)))
			b.ReportAllocs()
			var ex stream.Example
			for b.Loop() {
				if err := c.Decode(value, &ex); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
