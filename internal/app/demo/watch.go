package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/app/chart"
	"github.com/streamsvm/streamsvm/internal/app/course"
	"github.com/streamsvm/streamsvm/internal/app/report"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

// watch sees all parts of the demo. It is a hook of the trainers.
type watch struct {
	d      *demo
	course course.Course

	mu       sync.Mutex
	change   *sync.Cond
	consumed uint64
	tuned    bool
	last     uint64 // version published last
	ended    bool   // there will be no other
	saved    checkpoint.Header
	bytes    int64 // of the newest checkpoint
	number   int   // of checkpoints
	versions []versionRow
	held     *eval.Prequential
	// Points of the subscriber's accuracy over the examples learned.
	line chart.Series
}

// versionRow is a model as the subscriber got it.
type versionRow struct {
	version, examples uint64
	support           int
	recent, held      float64
}

func newWatch(d *demo) *watch {
	w := &watch{d: d, held: eval.New(false, window), line: chart.Series{Name: fmt.Sprintf("last %d held out", window)}}
	w.change = sync.NewCond(&w.mu)
	return w
}

// wait waits until done, which is called under the lock, returns true.
func (w *watch) wait(ctx context.Context, done func() bool) error {
	stop := context.AfterFunc(ctx, crash.Func(func() {
		w.mu.Lock()
		w.change.Broadcast()
		w.mu.Unlock()
	}))
	defer stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for !done() && ctx.Err() == nil {
		w.change.Wait()
	}
	return ctx.Err()
}

// waitConsumed waits until the trainer has consumed n records.
func (w *watch) waitConsumed(ctx context.Context, n int64) error {
	return w.wait(ctx, func() bool { return int64(w.consumed) >= n })
}

// waitLast waits until the subscriber has the model of the whole stream.
func (w *watch) waitLast(ctx context.Context, live *predictor.Live) (*predictor.Version, error) {
	err := w.wait(ctx, func() bool {
		return w.ended && live.Current().Update.Version >= w.last
	})
	return live.Current(), err
}

// Started implements engine.StartedHook.
func (w *watch) Started(e *engine.Engine, _ stream.Source) { w.d.engine = e }

// Consumed implements engine.ConsumedHook.
func (w *watch) Consumed(e *engine.Engine, queued int64) {
	w.course.Consumed(e, queued)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.consumed = e.Counts().Consumed
	w.change.Broadcast()
	if rows := e.Tuned(); !w.tuned && len(rows) > 0 {
		w.tuned = true
		for _, r := range rows {
			if r.Chosen {
				w.d.say("The trainer has tried %d settings on the first examples and chosen %s.", len(rows), r.Options)
			}
		}
	}
}

// Checkpointed implements trainer.HookCheckpointed.
func (w *watch) Checkpointed(_ string, h checkpoint.Header, bytes int64, _ time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.saved, w.bytes = h, bytes
	w.number++
}

// Published implements trainer.HookPublished.
func (w *watch) Published(u *stream.Update, took time.Duration) { w.course.Published(u, took) }

// end says which version is the last one.
func (w *watch) end(version uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.ended = version, true
	w.change.Broadcast()
}

// checkpoint describes the newest one.
func (w *watch) checkpoint() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("%d bytes after %d examples", w.bytes, w.saved.Examples)
}

// updated is called when the subscriber has swapped its model.
func (w *watch) updated(v *predictor.Version) {
	w.mu.Lock()
	defer w.mu.Unlock()
	info := v.Info()
	dv := versionRow{version: v.Update.Version, examples: v.Update.Examples, support: info.Support}
	for _, m := range v.Update.Evaluation {
		if m.Name == "prequential_accuracy_window" {
			dv.recent = m.Value
		}
	}
	_, dv.held = w.held.Accuracy()
	w.versions = append(w.versions, dv)
	if len(w.versions) == 1 {
		w.d.say("A subscriber has got its first model and predicts examples that are held out from training.")
		w.d.say("%8s %18s %26s %30s", "version", "examples learned", "accuracy, last 1000 before", "subscriber's accuracy, last")
		w.d.say("%8s %18s %26s %30s", "", "", "learning from them", "1000 held out")
	}
	w.d.say("%8d %18d %26s %30s", dv.version, dv.examples, eval.Percent(dv.recent), eval.Percent(dv.held))
	w.change.Broadcast()
}

// score predicts the examples of src with whatever model is current.
func (w *watch) score(ctx context.Context, src stream.Source, dec stream.Decoder, live *predictor.Live) error {
	var recs []stream.Record
	var dst []float64
	for {
		var err error
		recs, err = src.Fetch(ctx, recs[:0])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		xs, ys := make([]stream.Vec, len(recs)), make([]float64, len(recs))
		for i := range recs {
			var ex stream.Example
			if err := dec.Decode(recs[i].Value, &ex); err != nil {
				return stream.At(&recs[i], err)
			}
			xs[i], ys[i] = ex.X, ex.Y
		}
		dst = append(dst[:0], make([]float64, len(recs))...)
		live.Current().Decisions(dst, xs)
		w.mu.Lock()
		for i := range recs {
			w.held.Add(dst[i], ys[i])
			if n := w.held.Examples(); n%50 == 0 {
				_, recent := w.held.Accuracy()
				w.line.X, w.line.Y = append(w.line.X, float64(n*(holdEvery-1))), append(w.line.Y, eval.Number(recent))
			}
		}
		w.mu.Unlock()
	}
}

// finish prints the summary and writes the report.
func (d *demo) finish() error {
	w, e := d.watch, d.engine
	w.mu.Lock()
	defer w.mu.Unlock()
	n := e.Counts()
	all, recent := e.Prequential().Accuracy()
	heldAll, heldRecent := w.held.Accuracy()
	neg, pos := e.Prequential().Classes()
	info := e.Predictor().Info()
	rows := [][]string{
		{"examples", fmt.Sprintf("%d read from the topic = %d learned + %d sampled out + %d refused", n.Consumed, n.Learned, n.SampledOut, n.Dead)},
		{"accuracy while learning", fmt.Sprintf("%s over all, %s over the last %d, each predicted before it was learned", eval.Percent(all), eval.Percent(recent), window)},
		{"accuracy of the subscriber", fmt.Sprintf("%s over all %d held out, %s over the last %d, with the model of the moment", eval.Percent(heldAll), w.held.Examples(), eval.Percent(heldRecent), window)},
		{"accuracy of the last model", fmt.Sprintf("%s on the %d examples that come next (always the larger class: %s)", eval.Percent(d.tested), lastTest, eval.Percent(float64(max(neg, pos))/float64(neg+pos)))},
		{"model", fmt.Sprintf("%s, %d support vectors, learned by %s", info.Text, info.Support, d.learner)},
		{"model versions", fmt.Sprintf("%d published, %d taken into use by the subscriber without a pause", w.last, len(w.versions))},
		{"checkpoints", fmt.Sprintf("%d written, the last one %d bytes; training was stopped and resumed once", w.number, w.bytes)},
		{"speed", fmt.Sprintf("%.0f examples/s from the topic to the model, everything else in the same process", d.rate)},
		{"state hash", fmt.Sprintf("%016x: run the demo again, it will be the same", d.hash)},
	}
	dir := d.report
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "streamsvm-report-"); err != nil {
			return err
		}
	}
	page, err := report.Write(dir, d.page(rows))
	if err != nil {
		return err
	}
	d.say("Done.\n")
	for _, r := range rows {
		fmt.Fprintf(d.c.Out, "  %-27s %s\n", r[0], r[1])
	}
	fmt.Fprintf(d.c.Out, "\nPlots: %s\n%s", page, next)
	return nil
}

const next = `
The same with commands of your own, in several terminals:
  streamsvm broker --data-dir ./broker-data
  streamsvm generate checkerboard --count 100000 --topic examples --partitions 4 --rate 5000
  streamsvm train --topics examples --model-topic models --checkpoint ./state
  streamsvm model follow --model-topic models
  streamsvm generate checkerboard --count 5 --skip 200000 --codec json | streamsvm predict --model-topic models
Or on a file: streamsvm replay FILE.libsvm.gz
`

// page is the content of the report.
func (d *demo) page(rows [][]string) *report.Report {
	w := d.watch
	versions := report.Table{Title: "Models", Head: []string{"version", "examples learned", "support vectors", "recent accuracy", "subscriber's recent accuracy"}}
	var marks []float64
	for _, v := range w.versions {
		marks = append(marks, float64(v.examples))
		versions.Rows = append(versions.Rows, []string{fmt.Sprint(v.version), fmt.Sprint(v.examples), fmt.Sprint(v.support),
			eval.Percent(v.recent), eval.Percent(v.held)})
	}
	held := chart.Chart{
		Title: "Accuracy of the subscriber", X: chart.Axis{Label: "examples in the stream"}, Y: chart.Axis{Label: "accuracy", Percent: true},
		Caption: "Examples that are held out from training, predicted by a subscriber with the model it had at that moment.",
		Series:  []chart.Series{w.line},
		Marks:   []chart.Marks{{Name: "new model", At: marks, Tick: true}},
	}
	now := course.Look(d.engine)
	return &report.Report{
		Title:  "streamsvm demo",
		Lead:   "A producer wrote a drifting stream to a Kafka topic. A trainer learned from it and published models to another topic. A subscriber took each one into use and predicted examples held out from training.",
		Tables: slices.Concat([]report.Table{{Title: "Summary", Rows: rows}, versions}, now.Tables()),
		Charts: slices.Insert(w.course.Charts(now), 1, held),
		Foot:   version.Text(),
	}
}
