package status

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// changing is a learner that reports a change point after every 1,000 examples.
type changing struct {
	algos.Learner
	n *uint64 // examples
}

func (v changing) Add(x *stream.Example) (algos.Fate, error) {
	*v.n++
	return v.Learner.Add(x)
}

func (v changing) ChangePoints() (total uint64, latest []compare.ChangePoint) {
	total = *v.n / 1000
	for k := max(1, total-1); k <= total && total > 0; k++ {
		latest = append(latest, compare.ChangePoint{At: 1000 * k, From: 900, To: 64, Z: 3.5})
	}
	return total, latest
}

func TestHistory(t *testing.T) {
	spec, err := registry.Lookup("online")
	if err != nil {
		t.Fatal(err)
	}
	inner := spec.New
	spec.New = func(env algos.Env, o map[string]string) (algos.Learner, error) {
		l, err := inner(env, o)
		return changing{l, new(uint64)}, err
	}
	e, err := engine.NewEngine(engine.Config{Spec: spec, Warmup: 1500, Window: 100})
	if err != nil {
		t.Fatal(err)
	}
	h := &History{}
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
		h.Consumed(e, 0)
	}
	if err := e.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Consumed(e, 0)
	answers, sections := h.Quality(Take(e), "none")
	var titles []string
	for _, s := range sections {
		titles = append(titles, s.Title)
	}
	if want := []string{"Learning", "Drift", "Confusion"}; !slices.Equal(titles, want) || len(answers) != 3 {
		t.Fatalf("sections %q, %d answers", titles, len(answers))
	}
	if a := answers[1]; a.Text != "20 change points" || a.Detail != "the last change point 0 examples ago" || a.Bad {
		t.Errorf("%+v", a)
	}
	chart := sections[0].Charts[0]
	// The change at 1,000 was in the warm-up.
	if len(chart.Marks) != 1 || len(chart.Marks[0].At) != n/1000-1 || chart.Marks[0].At[0] != 500 || chart.Marks[0].Name != "19 change points" {
		t.Errorf("%+v", chart.Marks)
	}
	for _, s := range chart.Series[2:] { // the baselines, which only the history has
		if len(s.X) < maxPoints/2 || len(s.X) > maxPoints || len(s.Y) != len(s.X) || s.X[len(s.X)-1] < n-1600 || !slices.IsSorted(s.X) {
			t.Errorf("%s: %d points, %d values, up to %v", s.Name, len(s.X), len(s.Y), s.X[len(s.X)-1])
		}
	}

	if e, err = engine.NewEngine(engine.Config{Spec: spec, Warmup: 1, Window: 100}); err != nil {
		t.Fatal(err)
	}
	if answers, sections = new(History).Quality(Take(e), "none"); len(sections[0].Charts) != 0 || sections[0].Empty != "none" || answers[0].Bad {
		t.Errorf("of nothing: %+v, %+v", answers, sections)
	}
}

// TestAnswers: what is good and what is bad.
func TestAnswers(t *testing.T) {
	q := eval.New(false, 2000)
	for i := range 2000 {
		q.Add(float64(1-2*(i%2)), float64(2*(i/2%2)-1)) // right by chance, and the label before is, too
	}
	now := &Snapshot{Summary: q.Summary(), Scored: q.Examples(), Classes: []string{"no", "yes"}, Events: 9, Fields: []codec.FieldCount{{Name: "a", PSI: math.NaN()}, {Name: "b", PSI: .1}, {Name: "c", PSI: .2}}}
	h := &History{}
	answers, sections := h.Quality(now, "")
	if a := answers[1]; a.Text != "no change found" || a.Detail != "largest change: c, PSI 0.20" || a.Bad {
		t.Errorf("%+v", a)
	}
	if a := answers[2]; a.Text != "no taken for yes" || !strings.HasPrefix(a.Detail, "500 of 1000, in the last 2000") {
		t.Errorf("%+v", a)
	}
	if rows := sections[2].Tables[0].Rows; !slices.Equal(rows[1], []string{"yes", "500", "500", "50.00 %", "50.00 %"}) {
		t.Errorf("%q", rows)
	}
	now.Fields[1].PSI = .3
	if answers, _ = h.Quality(now, ""); answers[1].Text != "yes, the inputs have changed" || !answers[1].Bad {
		t.Errorf("%+v", answers[1])
	}
	for range 2000 {
		q.Add(-1, 1)
	}
	now.Summary = q.Summary()
	if answers, _ = h.Quality(now, ""); !answers[0].Bad || !strings.HasPrefix(answers[0].Text, "no, accuracy 0.00 %") {
		t.Errorf("%+v", answers[0])
	}
	r := eval.New(true, 10)
	for i := range 10 {
		r.Add(float64(i), float64(i)+.5)
	}
	now = &Snapshot{Summary: r.Summary(), Scored: 10}
	if answers, _ = h.Quality(now, ""); len(answers) != 2 || answers[0].Bad || answers[0].Text != "yes, mean absolute error 0.5" {
		t.Errorf("%+v", answers)
	}
	if a := refusals(3, 100); a.Text != "3 records" || !a.Bad || a.Detail != "3 % of 100 records consumed" {
		t.Errorf("%+v", a)
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
}
