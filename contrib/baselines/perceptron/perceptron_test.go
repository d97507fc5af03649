package perceptron

import (
	"fmt"
	"maps"
	"math"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/internal/testkit/oracle"
	"github.com/streamsvm/streamsvm/stream"
)

func TestConformance(t *testing.T) {
	for _, o := range []map[string]string{{"budget": "30", "gamma": "2"}, {"kernel": "poly", "average": "false"}} {
		t.Run(fmt.Sprint(o), func(t *testing.T) { algostest.Run(t, Spec, algostest.With(o), algostest.Accuracy(.85)) })
	}
}

func k(x, z *stream.Example) float64 {
	var d float64
	for j, v := range x.X.Val {
		e := float64(v) - float64(z.X.Val[j])
		d += e * e
	}
	return math.Exp(-2 * d)
}

// The bound on the mistakes holds for the solution of the SVM, and the learner
// makes the mistakes that a list of all examples would.
func TestMistakeBound(t *testing.T) {
	for seed := range uint64(8) {
		var xs []*stream.Example
		for _, x := range algostest.Moons(400, algos.Classify, seed) {
			if x.Labelled {
				xs = append(xs, x)
			}
		}
		l, err := Spec.New(algos.Env{}, map[string]string{"gamma": "2", "bias": "0", "average": "false"})
		if err != nil {
			t.Fatal(err)
		}
		var wrong []*stream.Example
		for _, x := range xs {
			f := 0.0
			for _, z := range wrong {
				f += z.Y * k(x, z)
			}
			if got := l.Model().Decision(x.X); math.Abs(got-f) > 1e-4 {
				t.Fatalf("seed %d, example %d: f = %g, want %g", seed, x.Seq, got, f)
			}
			if x.Y*f <= 0 {
				wrong = append(wrong, x)
			}
			algostest.Feed(t, l, x)
		}
		if m := l.Report().Gauges[0].Value; m != float64(len(wrong)) || m == 0 {
			t.Fatalf("seed %d: %g mistakes, want %d", seed, m, len(wrong))
		}
		n := len(xs)
		q, y := make([][]float64, n), make([]float64, n)
		for i, x := range xs {
			y[i] = x.Y
			for _, z := range xs {
				q[i] = append(q[i], k(x, z))
			}
		}
		for _, lambda := range []float64{1, .1, .01, .001} {
			u := oracle.Solve(q, y, lambda, 1e-6, 2000).Alpha
			var norm2, loss float64
			for i := range xs {
				f := 0.0
				for j := range xs {
					f += u[j] * q[i][j]
				}
				norm2 += u[i] * f
				for _, x := range wrong {
					if x == xs[i] {
						loss += max(0, 1-y[i]*f)
					}
				}
			}
			if bound := loss + math.Sqrt(norm2*loss) + norm2; float64(len(wrong)) > bound {
				t.Errorf("seed %d, λ %g: %d mistakes, the bound is %g", seed, lambda, len(wrong), bound)
			}
		}
	}
}

// With a budget, the iterates and their average are those of the definition, with
// all iterates kept.
func TestFade(t *testing.T) {
	for _, removal := range []string{"fade", "oldest"} {
		const budget = 20
		l, err := Spec.New(algos.Env{}, map[string]string{"gamma": "2", "bias": "0", "budget": fmt.Sprint(budget), "removal": removal})
		if err != nil {
			t.Fatal(err)
		}
		type iterate struct {
			weight float64
			coef   map[*stream.Example]float64
		}
		var iterates []iterate
		var live []*stream.Example
		w, left := map[*stream.Example]float64{}, 0.0
		f := func(coef map[*stream.Example]float64, x *stream.Example) (f float64) {
			for z, c := range coef {
				f += c * k(x, z)
			}
			return f
		}
		for _, x := range algostest.Moons(500, algos.Classify, 5) {
			if !x.Labelled {
				continue
			}
			if x.Seq%5 == 0 {
				x.Y = -x.Y
			}
			algostest.Feed(t, l, x)
			if x.Y*f(w, x) <= 0 {
				if len(live) == budget {
					delete(w, live[0])
					for _, v := range iterates {
						delete(v.coef, live[0])
					}
					live = live[1:]
				}
				live = append(live, x)
				w[x] = x.Y
				if left++; removal == "fade" && left > budget/8. {
					g := budget / 8. / left
					left *= g
					for z := range w {
						w[z] *= g
					}
					for i := range iterates {
						iterates[i].weight *= g
					}
				}
			}
			iterates = append(iterates, iterate{1, maps.Clone(w)})
			var want, total float64
			for _, v := range iterates {
				want += v.weight * f(v.coef, x)
				total += v.weight
			}
			if got := l.Model().Decision(x.X); math.Abs(got-want/total) > 1e-6 {
				t.Fatalf("%s, example %d: %g, want %g", removal, x.Seq, got, want/total)
			}
		}
		if r := l.Report(); r.Gauges[0].Value < 2*budget || r.Sample != budget {
			t.Errorf("%s: %g mistakes, %d support vectors: the budget is not tried", removal, r.Gauges[0].Value, r.Sample)
		}
	}
}

// The average is that of the iterates after each example.
func TestAverage(t *testing.T) {
	opts := map[string]string{"gamma": "2", "bias": "0"}
	avg, err := Spec.New(algos.Env{}, opts)
	if err != nil {
		t.Fatal(err)
	}
	opts["average"] = "false"
	last, err := Spec.New(algos.Env{}, opts)
	if err != nil {
		t.Fatal(err)
	}
	point := stream.Vec{Val: []float32{.3, .2}}
	var sum, n float64
	for _, x := range algostest.Moons(300, algos.Classify, 3) {
		c := *x
		algostest.Feed(t, avg, x)
		algostest.Feed(t, last, &c)
		if x.Labelled {
			sum += last.Model().Decision(point)
			n++
		}
	}
	if got := avg.Model().Decision(point); math.Abs(got-sum/n) > 1e-6*(1+math.Abs(got)) {
		t.Errorf("average %g, want %g", got, sum/n)
	}
}
