package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/rng"
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
	c = ok
	if err := c.parse([]string{"sbp"}, []string{"c=1"}); err != nil {
		t.Error(err)
	}
}
