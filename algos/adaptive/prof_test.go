package adaptive

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/stream"
)

func load(t *testing.T, path string) (xs []*stream.Example) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		w := strings.Fields(line)
		y, _ := strconv.ParseFloat(w[0], 64)
		if y <= 0 {
			y = -1
		}
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

func TestProf(t *testing.T) {
	f := os.Getenv("PROF")
	if f == "" {
		t.Skip()
	}
	xs := load(t, f)
	l, _ := Spec.New(algos.Env{Seed: 1}, nil)
	dst := make([]float64, 256)
	right, n := 0, 0
	for len(xs) > 0 {
		k := min(256, len(xs))
		if _, _, err := l.(algos.Sequential).Follow(context.Background(), dst, xs[:k]); err != nil {
			t.Fatal(err)
		}
		for i, x := range xs[:k] {
			n++
			if n > 4000 && (dst[i] >= 0) == (x.Y > 0) {
				right++
			}
		}
		xs = xs[k:]
	}
	w := l.(*Learner).vote.weights()
	out := ""
	for e, v := range w {
		out += fmt.Sprintf(" %s=%.3f", names[e], v)
	}
	c, k := l.(*Learner).Cuts()
	at := []string{}
	for _, x := range k {
		at = append(at, fmt.Sprintf("%d:%d>%d", x.At, x.From, x.To))
	}
	t.Logf("%+v %d", l.(*Learner).trust, l.(*Learner).machines[0].rows)
	t.Logf("%s after 4000 %.4f cuts %d %v%s", f, float64(right)/float64(n-4000), c, at[:min(len(at), 8)], out)
}

var _ stream.Vec
