package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/checkpoint"
	_ "github.com/streamsvm/streamsvm/contrib/scale/lssvm"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// lagging is a source that is some records behind.
type lagging struct {
	stream.Source
	n int64
}

func (l *lagging) Lag() map[stream.Partition]int64 {
	return map[stream.Partition]int64{{Topic: "b", ID: 1}: l.n, {Topic: "a", ID: 0}: 0}
}

func trained(t *testing.T) *engine.Engine {
	t.Helper()
	spec, err := registry.Lookup("sbp")
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.NewEngine(engine.Config{Spec: spec, Scale: "none", Options: map[string]string{"gamma": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func feed(t *testing.T, e *engine.Engine, n int) {
	t.Helper()
	var items []engine.Item
	for i := range n {
		y := float64(2*(i%2) - 1)
		items = append(items, engine.Item{
			Partition: stream.Partition{Topic: "a"}, Offset: int64(e.Counts().Consumed) + int64(i),
			Example: stream.Example{X: stream.Vec{Val: []float32{float32(y), float32(i%7) / 7}}, Y: y, Labelled: true},
		})
	}
	if _, err := e.Consume(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	if err := e.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// clocked returns a run whose clock the test moves.
func clocked() (*Run, *time.Time) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	r := New(About{Version: "v9", Learner: "sbp", Topics: []string{"a", "b"}, ModelTopic: "models", Model: "m"})
	r.now = func() time.Time { return now }
	r.began, r.moved = now, now
	return r, &now
}

func TestHealthFollowsProgress(t *testing.T) {
	r, now := clocked()
	src := &lagging{}
	r.src = src
	e := trained(t)
	r.Consumed(e, 0)
	*now = now.Add(time.Hour)
	r.Consumed(e, 0)
	if err := r.Healthy(45 * time.Second); err != nil {
		t.Fatalf("an idle stream without lag is healthy, got %v", err)
	}
	src.n = 12
	err := r.Healthy(45 * time.Second)
	if err == nil || !strings.Contains(err.Error(), "12 records") {
		t.Fatalf("lag without progress: got %v", err)
	}
	feed(t, e, 3)
	r.Consumed(e, 0)
	if err := r.Healthy(45 * time.Second); err != nil {
		t.Fatalf("progress was made, got %v", err)
	}
	*now = now.Add(44 * time.Second)
	if err := r.Healthy(45 * time.Second); err != nil {
		t.Fatalf("44 s are not a stall, got %v", err)
	}
	*now = now.Add(time.Second)
	if r.Healthy(45*time.Second) == nil {
		t.Fatal("45 s without progress and no failure")
	}
	src.n = 0
	r.view.queued = 5
	if r.Healthy(45*time.Second) == nil {
		t.Fatal("records in the queue wait too")
	}
}

func get(t *testing.T, r *Run) string {
	t.Helper()
	rec := httptest.NewRecorder()
	r.Page(45*time.Second).ServeHTTP(rec, httptest.NewRequestWithContext(context.Background(), "GET", "/", nil))
	body, err := io.ReadAll(rec.Result().Body)
	if err != nil || rec.Code != 200 {
		t.Fatalf("status %d, %v\n%s", rec.Code, err, body)
	}
	if csp := rec.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; script-src 'self'; ") {
		t.Errorf("policy %q", csp)
	}
	return breakable(string(body))
}

// breakable replaces the spaces in numbers, at which no line breaks, by others.
func breakable(body string) string { return strings.ReplaceAll(body, "\u00a0", " ") }

func TestPage(t *testing.T) {
	r, now := clocked()
	r.src = &lagging{n: 1234567}
	e := trained(t)
	if body := get(t, r); !strings.Contains(body, "starting") {
		t.Errorf("before the engine: %s", body)
	}
	r.Consumed(e, 0)
	for _, want := range []string{"Nothing has been scored", "No version has been published yet", "1 234 567 behind", "No checkpoint yet"} {
		if body := get(t, r); !strings.Contains(body, want) {
			t.Errorf("before the first record: no %q in\n%s", want, body)
		}
	}
	feed(t, e, 1500)
	*now = now.Add(2 * refresh)
	r.Consumed(e, 7)
	*now = now.Add(90 * time.Second)
	r.Dead(&stream.RecordError{Topic: "a", Partition: 3, Offset: 17, Stage: stream.StageDecode, Err: errors.New("<script>alert(1)</script>")})
	r.Checkpointed("", checkpoint.Header{Created: now.Add(-70 * time.Second), Examples: 1400, StateHash: 0xabc}, 5000, time.Second)
	for v := range uint64(recent + 3) {
		r.Published(&stream.Update{Version: v + 1, Kind: stream.Delta, Created: *now, Examples: 10 * v, Payload: make([]byte, 100)}, time.Second)
	}
	body := get(t, r)
	for _, want := range []string{
		"1 500", "stalled: no progress for 1m30s", "Checkpoint 1 min 10 s old", "&lt;script&gt;", "offset 17", `<figure class="chart">`, `<script src="chart.js">`,
		"&#34;m&#34; on models", "delta", ">11<", "yes, accuracy 100.00 %", "no change found", "What does it confuse?", "version 11, 0s old",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if strings.Contains(body, "<script>") || strings.Contains(body, "alert(1)</script>") {
		t.Error("text of a record reached the page as markup")
	}
	if rows := r.page(time.Hour).Sections[4].Tables[0].Rows; len(rows) != recent || rows[0][0] != "11" {
		t.Error("more than the most recent versions are listed")
	}
}

// TestClockSetBack: what was written before the clock was set back is from the
// future, and what was written before it was set forward is old; neither has a
// negative age, and progress is not measured by that clock.
func TestClockSetBack(t *testing.T) {
	r := New(About{Version: "v9", Learner: "sbp", Topics: []string{"a"}, Model: "m"})
	r.src = &lagging{n: 5}
	e := trained(t)
	feed(t, e, 100)
	r.Consumed(e, 0)
	for _, d := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		at := time.Now().Add(d).Truncate(time.Millisecond).UTC() // as a file holds it
		r.Checkpointed("", checkpoint.Header{Created: at, Examples: 100}, 1000, time.Millisecond)
		r.Published(&stream.Update{Version: 3, Created: at, Kind: stream.Full}, time.Millisecond)
	}
	p := r.page(45 * time.Second)
	rows := p.Sections[4].Tables[0].Rows // the newest first
	if rows[0][1] != "24 h 0 min" || rows[1][1] != "0s" || !strings.Contains(p.Lead, "Checkpoint 24 h 0 min old") {
		t.Errorf("%s %q", p.Lead, rows)
	}
	if err := r.Healthy(45 * time.Second); err != nil {
		t.Error(err)
	}
}

// TestFailedRunIsUnhealthy: at once, while its last checkpoint is written.
func TestFailedRunIsUnhealthy(t *testing.T) {
	r, _ := clocked()
	e := trained(t)
	feed(t, e, 10)
	r.Consumed(e, 0)
	if err := r.Healthy(time.Minute); err != nil {
		t.Fatal(err)
	}
	r.Failed(errors.New("501 of the last 1000 records cannot be used"))
	if err := r.Healthy(time.Minute); err == nil || !strings.Contains(err.Error(), "501 of") {
		t.Errorf("health after a failure: %v", err)
	}
	w := httptest.NewRecorder()
	r.Page(time.Minute).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if page := w.Body.String(); !strings.Contains(page, `<span class="bad">501 of`) {
		t.Errorf("the page does not say why:\n%s", page)
	}
}

// TestWaitingForLabels: examples of one label give no model, and the page says so.
func TestWaitingForLabels(t *testing.T) {
	r, now := clocked()
	e := trained(t)
	feed(t, e, 1)
	r.Consumed(e, 0)
	if got := r.Waiting(); got != "no model yet: only label -1 seen in 1 example" {
		t.Errorf("waiting: %q", got)
	}
	w := httptest.NewRecorder()
	r.Page(time.Minute).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if page := w.Body.String(); !strings.Contains(page, "no model yet: only label -1 seen") {
		t.Errorf("the page does not say so:\n%s", page)
	}
	feed(t, e, 9)
	*now = now.Add(time.Minute)
	r.Consumed(e, 0)
	if got := r.Waiting(); got != "" {
		t.Errorf("with both labels: %q", got)
	}
}

// TestHostile: labels, fields and measures are text of others. However many and
// long they are, and whatever is in them, the page stays text, and small.
func TestHostile(t *testing.T) {
	r, now := clocked()
	evil := `</script><img src=x onerror=alert(1)>"'` + strings.Repeat("w", 10_000)
	n := 200
	q := eval.NewClasses(1000)
	state := &Snapshot{Events: 7}
	for i := range 1000 {
		state.Fields = append(state.Fields, codec.FieldCount{Name: fmt.Sprint(i, evil), Type: "numeric", PSI: float64(i)})
	}
	for i := range 5000 {
		q.Add(float64(i%n), float64((i*i)%n))
		r.history.Scored(q, func() ([]codec.FieldCount, uint64, uint64) { return state.Fields, 7, 0 })
	}
	for i := range n {
		state.Classes = append(state.Classes, fmt.Sprint(i, evil))
	}
	state.Summary, state.Scored = q.Summary(), q.Examples()
	state.Summary.Name(state.Classes)
	for v := range uint64(500) {
		r.Published(&stream.Update{Version: v + 1, Created: now.Add(time.Duration(v) * time.Second)}, 0)
	}
	for range 20 {
		r.Dead(&stream.RecordError{Topic: evil, Stage: stream.StageDecode, Err: errors.New(evil)})
	}
	r.seen, r.view.quality = *now, state
	rec := httptest.NewRecorder()
	r.Page(time.Minute).ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
	body := rec.Body.String()
	if len(body) > 400_000 {
		t.Errorf("%d bytes", len(body))
	}
	if strings.Contains(body, "<img") || strings.Contains(body, "onerror=alert(1)>") {
		t.Error("text of others reached the page as markup")
	}
	for _, want := range []string{"999&lt;/script&gt;&lt;img", "189 others", "And 950 more fields."} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q", want)
		}
	}
}

// TestServing: the page of a service that predicts, before and after its first
// model.
func TestServing(t *testing.T) {
	var s Serving
	s.Begin("v9", "from a to b", func() stream.Decoder { return nil })
	get := func() string {
		rec := httptest.NewRecorder()
		s.Page(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
		return breakable(rec.Body.String())
	}
	if body := get(); !strings.Contains(body, "waiting for the first model") || !strings.Contains(body, "from a to b") {
		t.Errorf("before the first model:\n%s", body)
	}
	e := trained(t)
	feed(t, e, 500)
	data, err := e.Predictor().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := predictor.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	s.Scored(3, 1) // over HTTP
	for v := range uint64(3) {
		s.Updated(&predictor.Version{Predictor: p, Update: stream.Update{
			Model: "m<b>", Version: v + 4, Created: time.UnixMilli(int64(1000 * v)), Kind: stream.Full,
			Evaluation: []stream.Measure{{Name: "prequential_accuracy_window", Value: 0.5}},
		}}, len(data))
	}
	s.Show(Board{Admin: true, Moves: func() []modeltopic.Move {
		return []modeltopic.Move{
			{Alias: "champion", Version: 4, At: time.UnixMilli(3000)}, {Alias: "champion", Version: 6, At: time.UnixMilli(4000), Promotion: stream.Promotion{Previous: 4, By: "<i>"}},
			{Alias: "old", Version: 1, At: time.UnixMilli(5000)},
		}
	}})
	// What each alias stands for.
	for _, want := range []string{
		`value="rollback"`, "champion is version 6", `<tr><th scope="row">champion</th><td class="n">6</td><td class="n">4</td><td>1970-01-01 00:00:04</td><td>&lt;i&gt;</td>`, `<th scope="row">old</th><td class="n">1</td>`,
	} {
		if body := get(); !strings.Contains(body, want) || strings.Count(body, `scope="row">champion`) != 1 {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	s.Show(Board{})
	if body := get(); strings.Contains(body, "Aliases") || strings.Contains(body, "data-admin") {
		t.Errorf("without a board:\n%s", body)
	}
	if body := get(); !strings.Contains(body, "No labels have come") || !strings.Contains(body, "m&lt;b&gt;") || !strings.Contains(body, "25 % of 4 records consumed") {
		t.Errorf("without labels:\n%s", body)
	}
	q := eval.New(false, 100)
	s.Measured(q, []string{"no", "yes"})
	for i := range 50 {
		s.Compare(func() { q.Add(float64(i%3-1), float64(2*(i%2)-1)) })
	}
	for _, want := range []string{"Are its predictions right?", "last 50 examples", ">yes</th>", "no taken for yes", "of the learner sbp: "} {
		if body := get(); !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
}

// TestAsPublished: the page has what subscribers get beside the trainer's own figures.
func TestAsPublished(t *testing.T) {
	r, _ := clocked()
	spec, err := registry.Lookup("sbp")
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.NewEngine(engine.Config{Spec: spec, Scale: "none", Options: map[string]string{"gamma": "1"}, PublishEvery: 100})
	if err != nil {
		t.Fatal(err)
	}
	for range 6 {
		feed(t, e, 110)
	}
	r.Consumed(e, 0)
	rec := httptest.NewRecorder()
	r.Page(time.Hour).ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
	for _, want := range []string{"yes, accuracy 98.79 %, as published 100.00 %<", `scope="row">as published</th><td class="n">560</td>`, `scope="row">trainer</th>`, "up to 25 examples old<", "over 75 examples old<"} {
		if !strings.Contains(breakable(rec.Body.String()), want) {
			t.Errorf("no %q in\n%s", want, rec.Body.String())
		}
	}
}

// TestVerdict: the verdict is about the figures beside it, those of the window.
func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		accuracy, published eval.Number
		examples            int
		want                string // "" is good
	}{{.82, .75, 1000, ""}, {.69, .75, 1000, "no, accuracy 69.00 %, as published 75.00 %"}, {.69, .65, 99, ""}, {.82, .65, 1000, "yes, accuracy 82.00 %; not as published 65.00 %"}} {
		s := Snapshot{Scored: 3000}
		s.Summary.Measures = eval.Measures{Accuracy: .74, Baseline: eval.Baseline{Majority: .75, NoChange: .6}}
		s.Summary.Window.Measures = eval.Measures{Accuracy: c.accuracy, Baseline: eval.Baseline{Majority: .7, NoChange: .57}}
		s.Summary.Window.Examples = c.examples
		p := promote.PublishedReport{Examples: 2000}
		p.Summary.Window = s.Summary.Window
		p.Summary.Window.Accuracy = c.published
		s.AsPublished = &p
		if a := s.learning(""); a.Bad != (c.want != "") || a.Bad && a.Text != c.want {
			t.Errorf("%+v: %+v", c, a)
		}
	}
}
