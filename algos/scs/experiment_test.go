package scs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/scs"
	"github.com/streamsvm/streamsvm/internal/testkit/dataset"
	"github.com/streamsvm/streamsvm/stream"
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
