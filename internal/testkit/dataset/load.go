package dataset

import (
	"bufio"
	"compress/gzip"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// Load reads the first limit rows of the data file called name, all if limit is 0,
// as sparse examples numbered from 1, with values multiplied by scale. It parses
// only with package strconv, so that tests do not depend on the codecs. It skips
// the test if the file is absent.
func Load(tb testing.TB, name string, limit int, scale float32) []*stream.Example {
	tb.Helper()
	f, err := os.Open(Path(tb, name))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	var all []*stream.Example
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for (limit == 0 || len(all) < limit) && lines.Scan() {
		words := strings.Fields(lines.Text())
		y, err := strconv.ParseFloat(words[0], 64)
		if err != nil {
			tb.Fatal(err)
		}
		x := stream.Vec{Idx: []int32{}}
		for _, w := range words[1:] {
			i, v, _ := strings.Cut(w, ":")
			j, err1 := strconv.Atoi(i)
			val, err2 := strconv.ParseFloat(v, 32)
			if err1 != nil || err2 != nil {
				tb.Fatalf("%s, row %d: %q", name, len(all)+1, w)
			}
			x.Idx = append(x.Idx, int32(j-1))
			x.Val = append(x.Val, float32(val)*scale)
		}
		all = append(all, &stream.Example{Seq: uint64(len(all) + 1), X: x, Y: y, Labelled: true})
	}
	if err := lines.Err(); err != nil {
		tb.Fatal(err)
	}
	return all
}
