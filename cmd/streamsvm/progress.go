package main

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/stream"
)

// progress prints a line when the number of examples scored reaches a power of
// two, and at intervals. It is a hook of a run.
type progress struct {
	w     io.Writer
	log   *slog.Logger // instead of w, for JSON
	every time.Duration
	now   func() time.Time

	last         time.Time // of the last line
	marks        [2]mark   // the rate is taken from the first one on
	resumed      bool
	next         uint64
	scored       uint64 // at the last line
	shown        uint64 // records consumed at the last line
	right        float64
	hinge        float64
	header, told bool
	e            *engine.Engine // of the run, once it has started
	began        time.Time      // then
}

// mark is how many records had been consumed at a time.
type mark struct {
	at      time.Time
	records uint64
}

// rateOver is the least time that a rate is taken over: records come in bursts.
const rateOver = 2 * time.Second

// newProgress returns a progress on c.Err, silent if the user wants that.
func newProgress(c *cli.Call) *progress {
	p := &progress{w: c.Err, every: 10 * time.Second, now: time.Now, next: 1}
	if c.JSONLog {
		p.log = slog.New(slog.NewJSONHandler(c.Err, nil))
	}
	if c.Quiet {
		p.w, p.log = io.Discard, nil
	}
	p.last = p.now()
	p.marks = [2]mark{{at: p.last}, {at: p.last}}
	return p
}

// Started implements engine.StartedHook.
func (p *progress) Started(e *engine.Engine, _ stream.Source) {
	p.e, p.began = e, p.now()
	if e.Counts().Consumed == 0 {
		return
	}
	p.resumed = true
	p.shown = e.Counts().Consumed
	p.marks[0].records, p.marks[1].records = p.shown, p.shown
	p.scored = e.Prequential().Examples()
	p.right, p.hinge = totals(e)
	for p.next <= p.scored {
		p.next *= 2
	}
}

// Consumed implements engine.ConsumedHook.
func (p *progress) Consumed(e *engine.Engine, _ int64) {
	if rows := e.Tuned(); !p.told && e.Started() {
		p.told = true
		if len(rows) > 0 && !p.resumed && p.log == nil {
			printTuning(p.w, rows)
		}
	}
	n := e.Prequential().Examples()
	due := n >= p.next && e.Counts().Consumed > p.shown
	if due || p.now().Sub(p.last) >= p.every {
		p.line(e)
	}
	for p.next <= n {
		p.next *= 2
	}
}

// done prints a last line.
func (p *progress) done() {
	if p.e.Prequential().Examples() > p.scored || !p.header {
		p.line(p.e)
	}
}

// totals returns the number of right predictions, or the sum of absolute
// errors, and the sum of hinge losses, NaN for a regression.
func totals(e *engine.Engine) (right, hinge float64) {
	s := e.Prequential().Summary()
	n := float64(e.Prequential().Examples())
	if n == 0 {
		return 0, 0
	}
	if s.MAE != nil {
		return float64(*s.MAE) * n, math.NaN()
	}
	return math.Round(float64(s.Accuracy) * n), float64(s.Hinge) * n
}

func (p *progress) line(e *engine.Engine) {
	now := p.now()
	n := e.Prequential().Examples()
	right, hinge := totals(e)
	since := float64(n - p.scored)
	lastRight, lastHinge := (right-p.right)/since, (hinge-p.hinge)/since
	all, allHinge := right/float64(n), hinge/float64(n)
	count, rep := e.Counts(), e.Report()
	support := 0
	if m := e.Predictor(); m != nil {
		support = m.Info().Nonzero
	}
	if now.Sub(p.marks[1].at) >= rateOver {
		p.marks[0] = p.marks[1]
		p.marks[1] = mark{now, count.Consumed}
	}
	rate := float64(count.Consumed-p.marks[0].records) / now.Sub(p.marks[0].at).Seconds()
	p.last, p.scored, p.right, p.hinge, p.shown = now, n, right, hinge, count.Consumed
	if p.log != nil {
		p.log.Info("progress", "records", count.Consumed, "dead", count.Dead, "scored", n, "score_since_last", eval.Number(lastRight), "score", eval.Number(all),
			"sample", rep.Sample, "nonzero", support, "steps", rep.Step, "examples_per_second", math.Round(rate))
		return
	}
	if !p.header {
		p.header = true
		measure := "accuracy"
		if e.Prequential().Summary().MAE != nil {
			measure = "mean abs. error"
		}
		fmt.Fprintf(p.w, "%10s  %-17s  %-17s %8s %8s %9s %11s\n", "", measure, "hinge loss", "", "", "", "")
		fmt.Fprintf(p.w, "%10s  %8s %8s  %8s %8s %8s %8s %9s %11s\n", "records", "last", "all", "last", "all", "sample", "nonzero", "steps", "examples/s")
	}
	fmt.Fprintf(p.w, "%10d  %8s %8s  %8s %8s %8d %8d %9d %11.0f\n", count.Consumed,
		short(lastRight), short(all), short(lastHinge), short(allHinge), rep.Sample, support, rep.Step, rate)
}

func short(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return fmt.Sprintf("%.4f", v)
}
