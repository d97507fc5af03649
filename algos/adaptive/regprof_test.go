package adaptive

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
)

func loadNumbers(t *testing.T, path string) (xs []*stream.Example) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		w := strings.Fields(line)
		y, _ := strconv.ParseFloat(w[0], 64)
		x := &stream.Example{Seq: uint64(i + 1), Y: y, Labelled: true, X: stream.Vec{Idx: []int32{}}}
		for _, kv := range w[1:] {
			a, b, _ := strings.Cut(kv, ":")
			j, _ := strconv.Atoi(a)
			v, _ := strconv.ParseFloat(b, 32)
			x.X.Idx, x.X.Val = append(x.X.Idx, int32(j-1)), append(x.X.Val, float32(v))
		}
		xs = append(xs, x)
	}
	return xs
}

func TestRegProf(t *testing.T) {
	files := os.Getenv("REGPROF")
	if files == "" {
		t.Skip()
	}
	for _, f := range strings.Fields(files) {
		xs := loadNumbers(t, f)
		start := time.Now()
		o := map[string]string{}
		if v := os.Getenv("REGLOSS"); v != "" {
			o["loss"] = v
		}
		ll, err := Spec.New(algos.Env{Seed: 1, Task: algos.Regress}, o)
		if err != nil {
			t.Fatal(err)
		}
		l := ll.(*regressor)
		var out *bufio.Writer
		if d := os.Getenv("REGDUMP"); d != "" {
			h, _ := os.Create(d + "/" + f[strings.LastIndex(f, "/")+1:] + ".txt")
			defer h.Close()
			out = bufio.NewWriter(h)
			defer out.Flush()
		}
		dst := make([]float64, 1)
		var ae, se, n float64
		var each, eacha [numGuessers]float64
		for _, x := range xs {
			if _, _, err := l.Follow(context.Background(), dst, []*stream.Example{x}); err != nil {
				t.Fatal(err)
			}
			r := x.Y - dst[0]
			ae, se, n = ae+math.Abs(r), se+r*r, n+1
			for e, s := range l.scores {
				eacha[e] += math.Abs(s - x.Y)
				each[e] += (s - x.Y) * (s - x.Y)
			}
			if out != nil {
				fmt.Fprintf(out, "%g", x.Y)
				for _, s := range l.scores {
					fmt.Fprintf(out, " %.9g", s)
				}
				fmt.Fprintln(out)
			}
		}
		w := l.average.weights()
		line := ""
		for e, v := range w {
			line += fmt.Sprintf(" %s=%.2f/%.4f/%.4f", guesserNames[e], v, eacha[e]/n, math.Sqrt(each[e]/n))
		}
		c, k := l.Cuts()
		at := ""
		for _, x := range k[:min(len(k), 8)] {
			at += fmt.Sprintf(" %d:%d>%d", x.At, x.From, x.To)
		}
		ch := ""
		for _, m := range l.machines {
			if m != nil {
				ch += fmt.Sprintf(" %v", m.choice)
			}
		}
		fmt.Printf("%s MAE %.4f RMSE %.4f %.1fs cuts %d%s choices%s\n   %s\n", f[strings.LastIndex(f, "/")+1:], ae/n, math.Sqrt(se/n), time.Since(start).Seconds(), c, at, ch, line)
	}
}
