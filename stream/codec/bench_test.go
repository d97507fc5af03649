//go:build unix

package codec

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/streamsvm/streamsvm/internal/testkit/dataset"
	"github.com/streamsvm/streamsvm/stream"
)

// benchValues returns different values of n features with six decimals, as
// text files have them: a single value would be learned by the processor's
// branch predictors.
func benchValues(b *testing.B, c Codec, n int, sparse bool) (values [][]byte, size int) {
	b.Helper()
	r := rand.New(rand.NewPCG(5, 0))
	for size < 1<<20 {
		ex := &stream.Example{Y: float64(2*r.IntN(2) - 1), Labelled: true}
		j := int32(-1)
		for range n {
			v, _ := strconv.ParseFloat(strconv.FormatFloat(r.NormFloat64(), 'f', 6, 64), 32)
			ex.X.Val = append(ex.X.Val, float32(v))
			if sparse {
				j += 1 + int32(r.IntN(9))
				ex.X.Idx = append(ex.X.Idx, j)
			}
		}
		v, err := c.Append(nil, ex)
		if err != nil {
			b.Fatal(err)
		}
		values = append(values, v)
		size += len(v)
	}
	return values, size
}

// processor returns the seconds that processors have worked for this program.
func processor(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// reportRates says what a processor second has decoded since start, and what it
// reads at most: bytes.Count looks at each byte of the values once.
func reportRates(b *testing.B, values [][]byte, size int, start float64) {
	rate := float64(size) * float64(b.N) / (processor(b) - start) / 1e6
	const passes = 200
	least, zeros := math.Inf(1), 0
	for range 5 {
		start := processor(b)
		for range passes {
			for _, v := range values {
				zeros += bytes.Count(v, []byte{0})
			}
		}
		least = min(least, processor(b)-start)
	}
	read := float64(size) * passes / least / 1e6
	b.ReportMetric(rate, "decoded-MB/s")
	b.ReportMetric(rate/float64(size)*float64(len(values)), "M-examples/s")
	b.ReportMetric(read, "read-MB/s")
	b.ReportMetric(float64(b.N*len(values)), "examples")
}

// BenchmarkDecode decodes a mebibyte of values, each into memory of its own
// (own), into an arena whose vectors are kept (arena), and into one that is
// reset after every 512 (reset).
func BenchmarkDecode(b *testing.B) {
	for _, bb := range []struct {
		codec  string
		n      int
		sparse bool
	}{
		{"libsvm", 13, true}, {"libsvm", 28, true}, {"libsvm", 500, true},
		{"json", 28, false}, {"json", 500, false}, {"json", 28, true},
		{"msgpack", 28, false}, {"msgpack", 500, false}, {"msgpack", 28, true},
		{"csv", 28, false}, {"csv", 500, false},
	} {
		form := "dense"
		if bb.sparse {
			form = "sparse"
		}
		c := must(b, bb.codec, Options{CSV: CSVOptions{LabelColumn: "last"}})
		values, size := benchValues(b, c, bb.n, bb.sparse)
		for _, memory := range []string{"own", "arena", "reset"} {
			b.Run(bb.codec+"/"+form+"/d="+strconv.Itoa(bb.n)+"/"+memory, func(b *testing.B) {
				b.ReportAllocs()
				arena := new(stream.Arena)
				if memory == "own" {
					arena = nil
				}
				var ex stream.Example
				start := processor(b)
				for b.Loop() {
					for i, v := range values {
						if err := c.DecodeIn(arena, v, &ex); err != nil {
							b.Fatal(err)
						}
						if memory == "reset" && (i%512 == 511 || i == len(values)-1) {
							arena.Reset()
						}
					}
				}
				reportRates(b, values, size, start)
			})
		}
	}
}

// BenchmarkDecodeFiles decodes the first mebibytes of real files.
func BenchmarkDecodeFiles(b *testing.B) {
	for _, name := range []string{"a9a.train", "ijcnn1.train", "mnist8.test", "reuters_moneyfx.test"} {
		f, err := os.Open(dataset.Path(b, name+".libsvm.gz"))
		if err != nil {
			b.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			b.Fatal(err)
		}
		var values [][]byte
		size := 0
		s := bufio.NewScanner(z)
		s.Buffer(nil, 1<<20)
		for size < 2<<20 && s.Scan() {
			values = append(values, []byte(s.Text()))
			size += len(s.Bytes())
		}
		f.Close()
		b.Run(name, func(b *testing.B) {
			c := must(b, "libsvm", Options{})
			b.ReportAllocs()
			var arena stream.Arena
			var ex stream.Example
			start := processor(b)
			for b.Loop() {
				for i, v := range values {
					if err := c.DecodeIn(&arena, v, &ex); err != nil {
						b.Fatal(err)
					}
					if i%512 == 511 {
						arena.Reset()
					}
				}
			}
			reportRates(b, values, size, start)
		})
	}
}
