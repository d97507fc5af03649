package smo

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/internal/testkit/oracle"
	"github.com/streamsvm/streamsvm/stream"
)

func TestConformance(t *testing.T) {
	for _, o := range []map[string]string{
		{"buffer": "60", "gamma": "2", "lambda": "0.01"},
		{"buffer": "100", "keep": "balanced", "kernel": "poly", "gamma": "1", "intercept": "false", "every": "7", "cache": "0"},
		{"buffer": "90", "keep": "reservoir", "c": "10", "updates": "3", "final": "1"},
	} {
		t.Run(fmt.Sprint(o), func(t *testing.T) { algostest.Run(t, Spec, algostest.With(o), algostest.Accuracy(.85)) })
	}
}

// value is a Gaussian kernel with gamma 2, from the features alone.
func value(x, z *stream.Example) float64 {
	var d float64
	for j, v := range x.X.Val {
		e := float64(v) - float64(z.X.Val[j])
		d += e * e
	}
	return math.Exp(-2 * d)
}

func learner(t *testing.T, o map[string]string) *Learner {
	t.Helper()
	l, err := Spec.New(algos.Env{Seed: 2}, o)
	if err != nil {
		t.Fatal(err)
	}
	return l.(*Learner)
}

// labelled returns the labelled ones of n half moons.
func labelled(n int, seed uint64) (xs []*stream.Example) {
	for _, x := range algostest.Moons(n, algos.Classify, seed) {
		if x.Labelled {
			xs = append(xs, x)
		}
	}
	return xs
}

// finish feeds the examples and runs until the conditions hold to the tolerance.
func finish(t *testing.T, l *Learner, xs []*stream.Example) algos.Report {
	t.Helper()
	algostest.Feed(t, l, xs...)
	r, err := l.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// invariants checks that the responses belong to the coefficients, that these
// are within their bounds and, with an intercept, that they sum to 0.
func invariants(t *testing.T, l *Learner) {
	t.Helper()
	var sum float64
	for i, y := range l.y {
		var s float64
		for j, a := range l.alpha {
			s += a * l.y[j] * float64(l.rows.Row(i)[j])
		}
		if d := math.Abs(s - l.s[i]); d > 1e-6*(1+l.bound) {
			t.Fatalf("response of %d is %g, not %g", i, l.s[i], s)
		}
		if a := l.alpha[i]; a < 0 || a > l.bound {
			t.Fatalf("alpha of %d is %g, bound %g", i, a, l.bound)
		}
		sum += l.alpha[i] * y
	}
	if l.opt.Intercept && math.Abs(sum) > 1e-9*(1+l.bound) {
		t.Fatalf("sum of y alpha is %g", sum)
	}
}

// Without an intercept the objective is that of an independent solver on the
// examples held, whether they were all that came or the last of many.
func TestOptimum(t *testing.T) {
	xs := labelled(250, 4)
	for _, size := range []int{1000, 90} {
		l := learner(t, map[string]string{"gamma": "2", "intercept": "false", "c": "2", "buffer": fmt.Sprint(size), "tol": "1e-6", "final": "1000"})
		r := finish(t, l, xs)
		invariants(t, l)
		held := xs[max(0, len(xs)-size):]
		q, y := make([][]float64, len(held)), make([]float64, len(held))
		for i, x := range held {
			y[i] = x.Y
			for _, z := range held {
				q[i] = append(q[i], value(x, z))
			}
		}
		want := oracle.Solve(q, y, 1/(2*float64(len(held))), 1e-9, 20000).Objective
		if math.Abs(r.Objective-want) > 1e-5*want || r.Certificate > 1e-5*want {
			t.Errorf("window %d: objective %g, the optimum is %g, certificate %g", size, r.Objective, want, r.Certificate)
		}
	}
}

// With an intercept the duality gap closes: the bound does not depend on how
// the solution was found. A window that slid there has the same optimum as one
// that began with its examples, with lambda given, too, where the bound falls.
func TestIntercept(t *testing.T) {
	xs := labelled(400, 5)
	for _, weight := range []map[string]string{{"c": "2"}, {"lambda": "0.01"}, {"c": "100"}} {
		o := map[string]string{"gamma": "2", "buffer": "120", "tol": "1e-6", "final": "10000", "updates": "5"}
		for k, v := range weight {
			o[k] = v
		}
		slid := learner(t, o)
		a := finish(t, slid, xs)
		invariants(t, slid)
		b := finish(t, learner(t, o), xs[len(xs)-120:])
		for _, r := range []algos.Report{a, b} {
			if !(r.Objective > 0) || r.Certificate > 1e-5*r.Objective {
				t.Errorf("%v: objective %g, certificate %g", weight, r.Objective, r.Certificate)
			}
		}
		if math.Abs(a.Objective-b.Objective) > 2e-5*b.Objective {
			t.Errorf("%v: slid to %g, fresh %g", weight, a.Objective, b.Objective)
		}
		if slid.removed == 0 {
			t.Error("nothing with a coefficient left the window: the test shows nothing")
		}
	}
}

// The dual objective is the one that svm-train prints.
func TestLibsvm(t *testing.T) {
	if _, err := exec.LookPath("svm-train"); err != nil {
		t.Skip("svm-train is not installed")
	}
	xs := labelled(400, 6)
	var file bytes.Buffer
	for _, x := range xs {
		fmt.Fprintf(&file, "%g", x.Y)
		for j, v := range x.X.Val {
			fmt.Fprintf(&file, " %d:%.9g", j+1, v)
		}
		file.WriteByte('\n')
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "train")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []float64{.5, 20} {
		out, err := exec.CommandContext(t.Context(), "svm-train", "-g", "2", "-c", fmt.Sprint(c), "-e", "1e-6", path, filepath.Join(dir, "model")).Output()
		if err != nil {
			t.Fatal(err)
		}
		var obj, rho float64
		_, text, _ := strings.Cut(string(out), "obj = ")
		if _, err := fmt.Sscanf(text, "%g, rho = %g", &obj, &rho); err != nil {
			t.Fatalf("%v in %q", err, out)
		}
		l := learner(t, map[string]string{"gamma": "2", "c": fmt.Sprint(c), "tol": "1e-6", "final": "10000"})
		finish(t, l, xs)
		var got float64
		for i, a := range l.alpha {
			got += a*l.y[i]*l.s[i]/2 - a
		}
		// svm-train's first class is that of the first line.
		if b := -rho * xs[0].Y; math.Abs(got-obj) > 1e-5*math.Abs(obj) || math.Abs(l.b-b) > 1e-3 {
			t.Errorf("c = %g: objective %g, svm-train has %g; bias %g, %g", c, got, obj, l.b, b)
		}
	}
}

// Values of the kernel are counted once each: with a cache that holds all rows,
// there are no more of them than pairs.
func TestEvaluations(t *testing.T) {
	xs := labelled(600, 7)
	o := map[string]string{"gamma": "2", "c": "0.3", "every": "1000", "final": "100"}
	large := finish(t, learner(t, o), xs).KernelEvals
	if n := int64(len(xs)); large > n*n || large < n {
		t.Errorf("%d kernel values for %d examples", large, n)
	}
	o["cache"] = "0"
	if small := finish(t, learner(t, o), xs).KernelEvals; small <= large {
		t.Errorf("%d kernel values without a cache, %d with one", small, large)
	}
}

// The pair that is chosen is the one that the definition names: of the examples
// that can rise the one with the largest f, of those that can fall and have a
// smaller one that with the largest gain.
func TestSelection(t *testing.T) {
	l := learner(t, map[string]string{"gamma": "2", "c": "1.5", "buffer": "120", "updates": "0"})
	algostest.Feed(t, l, labelled(300, 8)...)
	if _, err := l.Refine(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	rose, fell := 0, 0
	for step := 0; l.fresh; step++ {
		if step == 100000 {
			t.Fatal("no end")
		}
		l.sides()
		i, most, min := -1, math.Inf(-1), math.Inf(1)
		for m, y := range l.y {
			if f := y - l.s[m]; f > most && l.up(m) {
				i, most = m, f
			}
			if f := y - l.s[m]; l.low(m) {
				min = math.Min(min, f)
			}
		}
		if gi, gmost, gmin := l.extremes(); gi != i || gmost != most || gmin != min {
			t.Fatalf("step %d: extremes %d %g %g, want %d %g %g", step, gi, gmost, gmin, i, most, min)
		}
		j, gain, best := -1, 0.0, 0.0
		for m, y := range l.y {
			d := most - (y - l.s[m])
			a := math.Max(l.diag[i]+l.diag[m]-float64(2*float64(l.rows.Row(i)[m])), least)
			if d > 0 && l.low(m) && d*d/a > gain {
				j, gain, best = m, d*d/a, d/a
			}
		}
		if gj, gbest := l.second(i, most); gj != j || gbest != best {
			t.Fatalf("step %d: second %d with a step of %g, want %d, %g", step, gj, gbest, j, best)
		}
		if l.y[i] > 0 {
			rose++
		} else {
			fell++
		}
		l.optimise(1)
	}
	if rose < 20 || fell < 20 {
		t.Errorf("%d steps began with a positive example, %d with a negative one", rose, fell)
	}
}
