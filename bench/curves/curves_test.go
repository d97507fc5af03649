package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/kernel"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/vec"
	"github.com/streamsvm/streamsvm/stream"
)

// file writes a data set that a small kernel machine learns: the sign of a
// product.
func file(t *testing.T, name string, n int, seed uint64) string {
	t.Helper()
	var b bytes.Buffer
	r := rng.New(seed, "curves.test")
	for range n {
		x, z := 2*r.Float64()-1, 2*r.Float64()-1
		y := -1
		if x*z > 0 {
			y = 1
		}
		fmt.Fprintf(&b, "%d 1:%.6g 2:%.6g\n", y, x, z)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	c := config{
		train: file(t, "train.libsvm", 300, 1), test: file(t, "test.libsvm", 500, 2),
		scale: 1, runs: 2, seed: 1, epochs: 4, grow: 1.3, out: dir,
	}
	err := errors.Join(c.setGamma([]string{"gamma=4"}), c.setRFF("64,128"), c.setRFF(""))
	if err != nil {
		t.Fatal(err)
	}
	err = c.parse([]string{"SBP: sbp nu=0.01", "pegasos passes=2", "smo", "perceptron"}, []string{"gamma=4", "c=10"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "curves.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	last := map[string]float64{}
	cost := map[string]float64{}
	for _, row := range rows[1:] {
		var evals, e float64
		if _, err := fmt.Sscan(row[3]+" "+row[5], &evals, &e); err != nil {
			t.Fatal(err)
		}
		key := row[0] + row[1]
		if evals < cost[key] {
			t.Errorf("%s: kernel evaluations fall from %g to %g", key, cost[key], evals)
		}
		cost[key], last[key] = evals, e
	}
	if len(last) != 10 {
		t.Errorf("%d runs, want 10", len(last))
	}
	for key, e := range last {
		if !(e < .12) {
			t.Errorf("%s: error %g", key, e)
		}
	}
	if !strings.Contains(out.String(), "SBP") {
		t.Error(out.String())
	}
	// What was written can be taken in again, and is then the same.
	again := c
	again.learners, again.rff, again.add, again.out = nil, nil, list{filepath.Join(dir, "curves.csv")}, t.TempDir()
	if err := again.run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"curves.csv", "mean.csv"} {
		a, err1 := os.ReadFile(filepath.Join(dir, name))
		b, err2 := os.ReadFile(filepath.Join(again.out, name))
		if err1 != nil || err2 != nil || len(a) == 0 || (name == "curves.csv" && !bytes.Equal(a, b)) {
			t.Errorf("%s: %v, %v, %d and %d bytes", name, err1, err2, len(a), len(b))
		}
	}
	for _, name := range []string{"mean.csv", "index.html"} {
		if s, err := os.Stat(filepath.Join(dir, name)); err != nil || s.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The mean at a cost is over the last measurements that cost no more, and is
// taken only where all runs have got to.
func TestMeans(t *testing.T) {
	run := func(r int, costErr ...float64) curve {
		c := curve{label: "a", run: r}
		for i := 0; i < len(costErr); i += 2 {
			c.points = append(c.points, point{evals: costErr[i], err: costErr[i+1]})
		}
		return c
	}
	m := costs[0].means([]curve{run(0, 10, .5, 100, .3, 1000, .1), run(1, 20, .7, 500, .1)})[0]
	if m.x[0] < 20 || m.finalX != 500 {
		t.Errorf("means from %g to %g", m.x[0], m.finalX)
	}
	for _, want := range [][2]float64{{30, .6}, {200, .5}, {500, .2}} {
		if e := m.upTo(want[0]); math.Abs(e-want[1]) > 1e-12 {
			t.Errorf("at %g: %g, want %g", want[0], e, want[1])
		}
	}
}

func TestRefuses(t *testing.T) {
	ok := config{train: "a.libsvm", test: "b.libsvm", out: "x", runs: 1, epochs: 1, grow: 1.3, gamma: 1}
	for _, tt := range []struct {
		learner, set string
		change       func(*config)
	}{
		{"nosuch", "c=1", func(*config) {}},
		{"sbp nu", "c=1", func(*config) {}},
		{"sbp nu=-1", "c=1", func(*config) {}},
		{"sbp", "c", func(*config) {}},
		{"x:", "c=1", func(*config) {}},
		{"sbp", "c=1", func(c *config) { c.test = "" }},
		{"sbp", "c=1", func(c *config) { c.holdout = 1 }},
		{"sbp", "c=1", func(c *config) { c.runs = 0 }},
		{"sbp", "c=1", func(c *config) { c.grow = 1 }},
	} {
		c := ok
		tt.change(&c)
		if err := c.parse([]string{tt.learner}, []string{tt.set}); err == nil {
			t.Errorf("%q with -set %q was accepted: %+v", tt.learner, tt.set, c)
		}
	}
	for _, text := range []string{"100", "x", "0", "64,", "32768"} {
		c := ok
		if c.setRFF(text) == nil {
			t.Errorf("-rff %s was accepted", text)
		}
	}
	c := ok
	c.gamma = 0
	if c.setRFF("64") == nil {
		t.Error("-rff was accepted without gamma")
	}
	c.gram = true
	if c.parse([]string{"sbp"}, []string{"c=1"}) == nil {
		t.Error("-gram was accepted without gamma")
	}
	c.gamma = 1
	if c.parse([]string{"sbp"}, []string{"gamma=2"}) == nil {
		t.Error("-gram was accepted with another kernel")
	}
	c = ok
	if err := c.parse([]string{"sbp"}, []string{"c=1"}); err != nil {
		t.Error(err)
	}
}

// With the kernel values computed beforehand every learner does what it does
// without, but for the order in which sums are made, and a value counts as often
// as it is used.
func TestGram(t *testing.T) {
	c := config{
		train: file(t, "train.libsvm", 300, 1), test: file(t, "test.libsvm", 500, 2),
		scale: 1, runs: 1, seed: 1, epochs: 2, grow: 1.3, gamma: 4,
	}
	train, err1 := read(t.Context(), c.train, 0, 1)
	test, err2 := read(t.Context(), c.test, 0, 1)
	g, err3 := newGram(t.Context(), train, test, c.gamma)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	defer g.close()
	b := kernel.New(kernel.Func{Kernel: vec.Kernel{Kind: vec.RBF, Gamma: 4}})
	for _, x := range train {
		b.Append(x.X)
	}
	want := make([]float32, len(train))
	for i, x := range append(train[:len(train):len(train)], test...) {
		b.Block(want, len(want), []stream.Vec{x.X}, 0, len(want))
		for j, v := range g.Values(i) {
			if math.Float32bits(v) != math.Float32bits(want[j]) {
				t.Fatalf("K(%d,%d) is %g, want %g", i, j, v, want[j])
			}
		}
	}
	for bias, near := range map[string]float64{"0": 1e-9, "0.5": 1e-5} { // which is added in single precision
		sets := []string{"gamma=4", "c=10", "cache=0", "intercept=false", "bias=" + bias}
		learners := []string{"sbp nu=0.01 restart=0", "pegasos passes=2", "sdca", "smo", "perceptron"}
		c.gram, c.learners = true, nil
		c.out = "unused"
		if err := c.parse(learners, sets); err != nil {
			t.Fatal(err)
		}
		for _, k := range c.learners {
			c.values = nil
			plain, err1 := c.finish(t.Context(), k, train)
			c.values = g
			tabled, err2 := c.finish(t.Context(), k, train.numbered(0))
			if err := errors.Join(err1, err2); err != nil {
				t.Fatalf("%s: %v", k.label, err)
			}
			n := len(train)
			for i, x := range test {
				f := plain.Model().Decision(x.X)
				if d := tabled.Model().Decision(stream.Vec{Val: []float32{float32(n + i)}}) - f; !(math.Abs(d) < near*(1+math.Abs(f))) {
					t.Fatalf("%s, bias %s, test point %d: %g, off by %g", k.label, bias, i, f, d)
				}
			}
			a, b := plain.Report(), tabled.Report()
			if a.Step != b.Step || k.label != "sbp" && k.label != "smo" && a.KernelEvals != b.KernelEvals {
				t.Errorf("%s: %d and %d iterations, %d and %d kernel values", k.label, a.Step, b.Step, a.KernelEvals, b.KernelEvals)
			}
			if uses := int64(b.Step) * int64(n); bias == "0" && (k.label == "sbp" || k.label == "smo") && b.KernelEvals != uses {
				t.Errorf("%s: %d kernel values in %d iterations on %d examples", k.label, b.KernelEvals, b.Step, n)
			}
		}
	}
}

// finish runs a learner on the examples in their order.
func (c *config) finish(ctx context.Context, k contender, train set) (algos.Learner, error) {
	l, err := c.create(k, len(train), 1)
	if err != nil {
		return nil, err
	}
	m := meter{config: c, learner: l, test: train[:1]}
	if r, ok := l.(algos.Refiner); ok {
		return l, m.refine(ctx, r, train)
	}
	return l, m.stream(ctx, train, rng.New(1, "curves.order"))
}
