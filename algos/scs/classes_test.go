package scs_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/algos/scs"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// zipf draws n examples of 20 classes with shares like 1/k, each three blobs in 16
// features.
func zipf(n int, seed uint64) []*stream.Example {
	const classes, blobs, dim = 20, 3, 16
	r := rand.New(rand.NewPCG(7, 7))
	var centre [classes * blobs][dim]float64
	for i := range centre {
		for j := range dim {
			centre[i][j] = 1.5 * r.NormFloat64()
		}
	}
	sum := 0.
	for k := range classes {
		sum += 1 / float64(k+1)
	}
	r = rand.New(rand.NewPCG(seed, 7))
	xs := make([]*stream.Example, n)
	for i := range xs {
		k, u := 0, r.Float64()*sum
		for ; k < classes-1 && u > 1/float64(k+1); k++ {
			u -= 1 / float64(k+1)
		}
		x := &stream.Example{Seq: uint64(i + 1), Labelled: true, Y: float64(k)}
		for _, v := range centre[k*blobs+r.IntN(blobs)] {
			x.X.Val = append(x.X.Val, float32(v+r.NormFloat64()))
		}
		xs[i] = x
	}
	return xs
}

// digits reads a file of scikit-learn's digits that docs/measured/classes.md makes.
func digits(t *testing.T, name string) []*stream.Example {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(home, ".cache/streamsvm/classes", name))
	if err != nil {
		t.Skipf("the digits of scikit-learn are not here, see docs/measured/classes.md: %v", err)
	}
	defer f.Close()
	dec, err := codec.New("libsvm", codec.Options{Labels: "0,1,2,3,4,5,6,7,8,9"})
	if err != nil {
		t.Fatal(err)
	}
	var xs []*stream.Example
	for lines := bufio.NewScanner(f); lines.Scan(); {
		x := &stream.Example{Seq: uint64(len(xs) + 1)}
		if err := dec.Decode(lines.Bytes(), x); err != nil {
			t.Fatal(err)
		}
		xs = append(xs, x)
	}
	return xs
}

// TestClassesAgainstLIBSVM: with the same C and γ a single pass is as accurate as
// LIBSVM, one class against one, within .3 points.
func TestClassesAgainstLIBSVM(t *testing.T) {
	svmTrain, err := exec.LookPath("svm-train")
	if err != nil {
		t.Skipf("Debian's libsvm-tools are not here: %v", err)
	}
	run := func(t *testing.T, c, gamma string, classes int, train, test []*stream.Example) {
		dir := t.TempDir()
		for name, xs := range map[string][]*stream.Example{"train": train, "test": test} {
			var b strings.Builder
			for _, x := range xs {
				fmt.Fprintf(&b, "%g", x.Y)
				for i, v := range x.X.Val {
					j := i
					if x.X.Sparse() {
						j = int(x.X.Idx[i])
					}
					fmt.Fprintf(&b, " %d:%g", j+1, v)
				}
				b.WriteByte('\n')
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(svmTrain, "-q", "-c", c, "-g", gamma, "train", "model")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		took := cmd.ProcessState.UserTime()
		cmd = exec.Command("svm-predict", "test", "model", "out")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var theirs float64
		if _, err := fmt.Sscanf(string(out), "Accuracy = %g%%", &theirs); err != nil {
			t.Fatalf("%v: %s", err, out)
		}

		start := time.Now()
		l, err := scs.Spec.New(algos.Env{Seed: 1, Classes: classes}, map[string]string{"c": c, "gamma": gamma})
		if err != nil {
			t.Fatal(err)
		}
		algostest.Feed(t, l, train...)
		if _, err := l.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		own := time.Since(start)
		right, xs, f := 0., make([]stream.Vec, len(test)), make([]float64, len(test))
		for i, x := range test {
			xs[i] = x.X
		}
		l.Model().Decisions(f, xs)
		for i, x := range test {
			if f[i] == x.Y {
				right++
			}
		}
		ours := 100 * right / float64(len(test))
		t.Logf("%.2f %% in %v, LIBSVM %.2f %% in %v (CPU)", ours, own, theirs, took)
		if ours < theirs-.3 {
			t.Errorf("%.2f %% are right, LIBSVM %.2f %%", ours, theirs)
		}
	}
	t.Run("zipf", func(t *testing.T) { run(t, "3", "0.05", 20, zipf(8000, 1), zipf(5000, 2)) })
	t.Run("digits", func(t *testing.T) { run(t, "10", "0.5", 10, digits(t, "digits.train"), digits(t, "digits.test")) })
}

// TestClassesAreEachAgainstTheRest: the heads have the bits of learners of their
// own, as long as these decide alike about the sample.
func TestClassesAreEachAgainstTheRest(t *testing.T) {
	xs := zipf(3000, 1)
	options := map[string]string{"c": "3", "gamma": "0.05"}
	l, err := scs.Spec.New(algos.Env{Seed: 1, Classes: 20}, options)
	if err != nil {
		t.Fatal(err)
	}
	algostest.Feed(t, l, xs...)
	points := make([]stream.Vec, 200)
	for i := range points {
		points[i] = xs[i].X
	}
	scores := make([]float64, 20*len(points))
	l.Model().(algos.Scorer).Scores(scores, points)
	for _, k := range []int{0, 7, 19} {
		head, err := scs.Spec.New(algos.Env{Seed: 1}, options)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range xs {
			c := *x
			if c.Y = -1; int(x.Y) == k {
				c.Y = 1
			}
			algostest.Feed(t, head, &c)
		}
		f := make([]float64, len(points))
		head.Model().Decisions(f, points)
		for i, want := range f {
			if got := scores[20*i+k]; got != want {
				t.Fatalf("class %d: f(x_%d) = %v, alone %v", k, i, got, want)
			}
		}
	}
}
