package course

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	_ "github.com/streamsvm/streamsvm/contrib/baselines"
	_ "github.com/streamsvm/streamsvm/contrib/scale/lssvm"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/samplers"
	"github.com/streamsvm/streamsvm/stream"
)

// voter is a learner with the gauges of a vote of ten, of which the weights move
// round, and a cut after every 1,000 examples.
type voter struct {
	algos.Learner
	n *uint64 // examples
}

func (v voter) Add(x *stream.Example) (algos.Fate, error) {
	*v.n++
	return v.Learner.Add(x)
}

func (v voter) Report() algos.Report {
	r, sum := v.Learner.Report(), 0.0
	weight := func(k int) float64 { return 1 + math.Sin(float64(*v.n)/3000+float64(k)) }
	for k := range 10 {
		sum += weight(k)
	}
	r.Gauges = append(r.Gauges, stream.Measure{Name: "other", Value: 7})
	for k := range 10 {
		r.Gauges = append(r.Gauges, stream.Measure{Name: fmt.Sprintf("weight_e%d", k), Value: weight(k) / sum})
	}
	return r
}

func (v voter) Cuts() (total uint64, latest []samplers.Cut) {
	total = *v.n / 1000
	for k := max(1, total-1); k <= total && total > 0; k++ {
		latest = append(latest, samplers.Cut{At: 1000 * k, From: 900, To: 64, Z: 3.5})
	}
	return total, latest
}

func TestCourse(t *testing.T) {
	spec, err := registry.Lookup("perceptron")
	if err != nil {
		t.Fatal(err)
	}
	inner := spec.New
	spec.New = func(env algos.Env, o map[string]string) (algos.Learner, error) {
		l, err := inner(env, o)
		return voter{l, new(uint64)}, err
	}
	e, err := engine.NewEngine(engine.Config{Spec: spec, Warmup: 1500, Window: 100})
	if err != nil {
		t.Fatal(err)
	}
	c := &Course{}
	const n = 20_000
	for i := range n / 20 {
		items := make([]engine.Item, 20)
		for k := range items {
			at := 20*i + k
			y := float64(2*(at%2) - 1)
			items[k] = engine.Item{Offset: int64(at), Example: stream.Example{X: stream.Vec{Val: []float32{float32(y), 1}}, Y: y, Labelled: true}}
		}
		if _, err := e.Consume(t.Context(), items); err != nil {
			t.Fatal(err)
		}
		c.Consumed(e, 0)
	}
	if err := e.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Consumed(e, 0)
	charts := c.Charts(Look(e))
	var titles []string
	for _, chart := range charts {
		titles = append(titles, chart.Title)
	}
	if want := []string{"Prequential accuracy", "AUC and balanced accuracy, last 100 examples", "Labels, last 100 examples", "Weights", "Reliability of probabilities"}; !slices.Equal(titles, want) {
		t.Fatalf("charts %q", titles)
	}
	votes := charts[3]
	if len(votes.Series) != 10 || len(charts[4].Marks) != 0 {
		t.Fatalf("%d votes, %v", len(votes.Series), charts[4].Marks)
	}
	for _, chart := range charts[:4] {
		// The cut at 1,000 was in the warm-up.
		if len(chart.Marks) != 1 || len(chart.Marks[0].At) != n/1000-1 || chart.Marks[0].At[0] != 500 || chart.Marks[0].Name != "cuts of the sample: 19" {
			t.Errorf("%s: %+v", chart.Title, chart.Marks)
		}
	}
	for k, s := range votes.Series {
		if s.Name != fmt.Sprintf("e%d", k) || len(s.X) < maxPoints/2 || len(s.X) > maxPoints || len(s.Y) != len(s.X) || s.X[len(s.X)-1] < n-1600 {
			t.Errorf("%s: %d points, %d values, up to %v", s.Name, len(s.X), len(s.Y), s.X[len(s.X)-1])
		}
		for i := range s.X {
			if i > 0 && s.X[i] <= s.X[i-1] {
				t.Fatalf("%s: %v after %v", s.Name, s.X[i], s.X[i-1])
			}
		}
	}
	at := len(votes.Series[0].X) / 2
	sum := 0.0
	for _, s := range votes.Series {
		sum += float64(s.Y[at])
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("the weights sum to %v", sum)
	}

	// A learner without weights has the one chart, and no marks.
	if e, err = engine.NewEngine(engine.Config{Spec: spec, Warmup: 1, Window: 100}); err != nil {
		t.Fatal(err)
	}
	if charts := new(Course).Charts(Look(e)); charts != nil {
		t.Errorf("%d charts of nothing", len(charts))
	}
}

// TestImportance: of three features the label is that of the second.
func TestImportance(t *testing.T) {
	spec, err := registry.Lookup("online")
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.NewEngine(engine.Config{Spec: spec, Scale: "none", Warmup: 1})
	if err != nil {
		t.Fatal(err)
	}
	var items []engine.Item
	var xs []stream.Vec
	var labels []float64
	for i := range 400 {
		y := float64(2*(i/3%2) - 1)
		x := stream.Vec{Idx: []int32{0, 1, 2}, Val: []float32{float32(i%5)/50 - 0.04, float32(y), float32(i%7)/70 - 0.04}}
		xs, labels = append(xs, x), append(labels, y)
		items = append(items, engine.Item{Offset: int64(i), Example: stream.Example{X: x, Y: y, Labelled: true}})
	}
	if _, err := e.Consume(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	if err := e.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, err := e.Predictor().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := predictor.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	got := Importance(p, xs, labels)
	if got == nil || len(got.Rows) != 3 || got.Rows[0][0] != "feature 2" || got.Heat[0][0] != 0.6 {
		t.Fatalf("%+v", got)
	}
	if lost, err := strconv.ParseFloat(strings.TrimSuffix(got.Rows[0][1], " %"), 64); err != nil || lost < 30 || lost > 70 || strings.TrimLeft(got.Rows[2][1], "-0.% ") != "" {
		t.Errorf("%v", got.Rows)
	}
	if again := Importance(p, xs, labels); !reflect.DeepEqual(again, got) {
		t.Errorf("%+v, then %+v", got, again)
	}
	if few := Importance(p, xs[:50], labels[:50]); few != nil {
		t.Errorf("of 50 examples: %+v", few)
	}
	if w := Look(e).Tables(); w[len(w)-1].Title != "Weights of features" || w[len(w)-1].Rows[0][0] != "feature 2" {
		t.Errorf("%+v", w[len(w)-1])
	}
}
