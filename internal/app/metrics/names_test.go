package metrics

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/promote"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

var update = flag.Bool("update", false, "rewrite names.golden")

// everything returns a registry for each task, in which every metric has a
// value.
func everything(t *testing.T) []*prometheus.Registry {
	t.Helper()
	var all []*prometheus.Registry
	for learner, task := range map[string]algos.Task{"scs": algos.Classify, "online": algos.Regress} {
		spec, err := registry.Lookup(learner)
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.NewEngine(engine.Config{Spec: spec, Task: task, Scale: "none", Join: engine.Join{Topic: "labels", Window: 3}, PublishEvery: 500})
		if err != nil {
			t.Fatal(err)
		}
		var items []engine.Item
		for i := range 1200 {
			y := float64(2*(i%2) - 1)
			items = append(items, engine.Item{
				Partition: stream.Partition{Topic: "t"}, Offset: int64(i),
				Example: stream.Example{X: stream.Vec{Val: []float32{float32(y), float32(i%7) / 7}}, Y: y, Labelled: true},
			})
		}
		if _, err := e.Consume(t.Context(), items); err != nil {
			t.Fatal(err)
		}
		if err := e.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		reg := prometheus.NewRegistry()
		m := NewTrainer(reg)
		src := stream.Source(lagging{})
		m.src.Store(&src)
		m.Consumed(e, 0)
		v := *m.view.Load()
		v.classes = []eval.Class{{Label: "a"}}
		v.fields = []codec.FieldCount{{Name: "f"}}
		v.gate = &promote.Report{Waits: "samples"}
		m.view.Store(&v)
		m.Decided(promote.Decision{Verdict: "promoted"})
		m.Promoted("champion", &stream.Update{Version: 1}, stream.Promotion{})
		m.Checkpointed("p", checkpoint.Header{Created: time.Unix(1, 0)}, 1, time.Second)
		m.Published(&stream.Update{Kind: stream.Full, Created: time.Unix(1, 0)}, time.Second)
		for _, p := range []*Predictor{NewPredictor(reg), NewShadow(reg)} {
			p.Updated(&stream.Update{Created: time.Unix(1, 0)}, 1)
			p.Scored(1, 0, time.Second)
		}
		member := prometheus.NewRegistry()
		for _, shadow := range []bool{false, true} {
			NewSession(member, lagging{}, shadow).Ended(true, time.Second)
		}
		NewHTTP(member, []string{"bytes"}, func() int64 { return 1 }).Rejected("bytes")
		all = append(all, member)
		all = append(all, reg)
	}
	return append(all, NewRegistry("v0"))
}

// TestNames holds the names, types and labels of all metrics against
// names.golden: dashboards and alerts of users depend on them. A change there
// is a change of the interface. Rewrite it with
//
//	go test ./internal/app/metrics -run TestNames -update
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, reg := range everything(t) {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if !strings.HasPrefix(f.GetName(), "streamsvm_") {
				continue
			}
			var labels []string
			for _, l := range f.GetMetric()[0].GetLabel() {
				labels = append(labels, l.GetName())
			}
			seen[strings.TrimSpace(fmt.Sprintf("%s %s %s", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ",")))] = true
		}
	}
	var names []string
	for n := range seen {
		names = append(names, n)
	}
	slices.Sort(names)
	got := strings.Join(names, "\n") + "\n"
	if *update {
		if err := os.WriteFile("names.golden", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("names.golden")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the metrics are\n%s\nnames.golden says\n%s", got, want)
	}
}

// TestLint holds the metrics against Prometheus' own rules for names and help
// texts.
func TestLint(t *testing.T) {
	for _, reg := range everything(t) {
		problems, err := testutil.GatherAndLint(reg)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			if strings.HasPrefix(p.Metric, "streamsvm_") {
				t.Errorf("%s: %s", p.Metric, p.Text)
			}
		}
	}
}
