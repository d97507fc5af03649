package scs_test

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/scs"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/internal/testkit/dataset"
	"github.com/streamsvm/streamsvm/stream"
	"golang.org/x/sys/unix"
)

// train feeds the examples in order and finishes.
func train(tb testing.TB, l algos.Learner, data []*stream.Example) algos.Report {
	tb.Helper()
	feed(tb, l, data)
	r, err := l.Finish(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func feed(tb testing.TB, l algos.Learner, data []*stream.Example) {
	tb.Helper()
	for _, x := range data {
		if _, err := l.Add(x); err != nil {
			tb.Fatal(err)
		}
		for n := l.Need(); n.Fresh == 0; n = l.Need() {
			if _, err := l.Step(tb.Context()); err != nil {
				tb.Fatal(err)
			}
		}
	}
}

// accuracy returns the share of test examples that m classifies right.
func accuracy(m algos.Model, test []*stream.Example) float64 {
	xs := make([]stream.Vec, len(test))
	for i, x := range test {
		xs[i] = x.X
	}
	f := make([]float64, len(xs))
	m.Decisions(f, xs)
	right := 0
	for i, x := range test {
		if (f[i] >= 0) == (x.Y > 0) {
			right++
		}
	}
	return float64(right) / float64(len(test))
}

func newLearner(tb testing.TB, options string) algos.Learner {
	tb.Helper()
	o := map[string]string{}
	for _, w := range strings.Fields(options) {
		k, v, _ := strings.Cut(w, "=")
		o[k] = v
	}
	l, err := scs.Spec.New(algos.Env{Seed: 1}, o)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func TestLearnsIJCNN1(t *testing.T) {
	data := dataset.Load(t, "ijcnn1.train.libsvm.gz", 4000, 1)
	test := dataset.Load(t, "ijcnn1.test.libsvm.gz", 2000, 1)
	l := newLearner(t, "gamma=2 c=32")
	start := time.Now()
	r := train(t, l, data)
	t.Log(time.Since(start), describe(r))
	start = time.Now()
	if a := accuracy(l.Model(), test); a < 0.95 {
		t.Errorf("accuracy %.4f", a)
	} else {
		t.Logf("accuracy %.4f in %v", a, time.Since(start))
	}
}

func describe(r algos.Report) string {
	s := fmt.Sprintf("k=%d f=%.6g cert=%.3g |S|=%d evals=%.3g", r.Step, r.Objective, r.Certificate, r.Sample, float64(r.KernelEvals))
	for _, g := range r.Gauges {
		s += fmt.Sprintf(" %s=%.4g", g.Name, g.Value)
	}
	return s
}

// problems are the data sets of the comparison with LIBSVM, with its
// parameters. Sets without a test file are shuffled and cut 80/20.
var problems = []struct {
	name, train, test, options string
	scale                      float32
	standardise                bool
	libsvm                     float64 // accuracy of svm-train, per cent
}{
	{"a9a", "a9a.train.libsvm.gz", "a9a.test.libsvm.gz", "gamma=0.05 c=1", 1, false, 85.09},
	{"ijcnn1", "ijcnn1.train.libsvm.gz", "ijcnn1.test.libsvm.gz", "gamma=2 c=32", 1, false, 98.70},
	{"w8a", "w8a.train.libsvm.gz", "w8a.test.libsvm.gz", "gamma=0.1 c=8", 1, false, 99.28},
	{"magic04", "magic04.libsvm.gz", "", "gamma=0.1 c=10", 1, true, 87.4},
	{"skin", "skin_nonskin.libsvm.gz", "", "gamma=20 c=100", 1. / 255, false, 99.9},
}

// split shuffles with a fixed seed and cuts off a fifth for the test.
func split(all []*stream.Example) (train, test []*stream.Example) {
	r := rng.New(1, "split")
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	n := len(all) * 4 / 5
	return all[:n], all[n:]
}

// standardise makes dense vectors of mean 0 and variance 1 on the training
// part.
func standardise(train, test []*stream.Example) {
	dim := 0
	for _, x := range train {
		dim = max(dim, x.X.Dim())
	}
	mean, sd := make([]float64, dim), make([]float64, dim)
	row := make([]float32, dim)
	for _, x := range train {
		x.X.Dense(row)
		for j, v := range row {
			mean[j] += float64(v) / float64(len(train))
		}
	}
	for _, x := range train {
		x.X.Dense(row)
		for j, v := range row {
			sd[j] += (float64(v) - mean[j]) * (float64(v) - mean[j]) / float64(len(train))
		}
	}
	for _, part := range [][]*stream.Example{train, test} {
		for _, x := range part {
			v := make([]float32, dim)
			x.X.Dense(v)
			for j := range v {
				if sd[j] > 0 {
					v[j] = float32((float64(v[j]) - mean[j]) / math.Sqrt(sd[j]))
				}
			}
			x.X = stream.Vec{Val: v}
		}
	}
}

// TestExperiment prints a line for each data set named in SCS_SETS and each
// option list, parted by semicolons, in SCS_OPTIONS: accuracy and support vectors
// of the live model and of the finished one, and the processor seconds of
// learning and finishing.
func TestExperiment(t *testing.T) {
	sets := os.Getenv("SCS_SETS")
	if sets == "" {
		t.Skip("prints and checks nothing: set SCS_SETS to the data sets")
	}
	limit, _ := strconv.Atoi(os.Getenv("SCS_LIMIT"))
	testLimit, _ := strconv.Atoi(os.Getenv("SCS_TEST"))
	for _, p := range problems {
		if !strings.Contains(","+sets+",", ","+p.name+",") {
			continue
		}
		tr := dataset.Load(t, p.train, 0, p.scale)
		var te []*stream.Example
		if p.test == "" {
			tr, te = split(tr)
		} else {
			te = dataset.Load(t, p.test, 0, p.scale)
		}
		if p.standardise {
			standardise(tr, te)
		}
		if limit > 0 {
			tr = tr[:min(limit, len(tr))]
		}
		if testLimit > 0 {
			te = te[:min(testLimit, len(te))]
		}
		for o := range strings.SplitSeq(os.Getenv("SCS_OPTIONS"), ";") {
			l := newLearner(t, p.options+" "+o)
			start := cpu()
			feed(t, l, tr)
			seconds := cpu() - start
			live := l.Model()
			before := accuracy(live, te)
			start = cpu()
			r, err := l.Finish(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			finish := cpu() - start
			start = cpu()
			m := l.Model()
			a := accuracy(m, te)
			fmt.Printf("%-8s n=%d live %6.2f %% %d, finished %6.2f %% (LIBSVM %.2f) %d, %.3f + %.3f s, predict %.3f s [%s] %s\n", p.name, len(tr),
				100*before, live.Info().Support, 100*a, p.libsvm, m.Info().Support, seconds, finish, cpu()-start, o, describe(r))
		}
	}
}

// cpu returns the processor seconds of the process, which, unlike the time of
// day, mean something on a busy machine.
func cpu() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return math.NaN()
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
