package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/fileio"
)

// Intervals at which progress is shown. Tests shorten them.
var (
	progressEvery = 30 * time.Second // in a pipe or a file, a line each time
	progressLive  = time.Second      // on a terminal, the same line again
)

// progress reports on standard error what a long-running command does: one line when it
// starts, and then how far it has got, at intervals, even while nothing happens. On a
// terminal it rewrites one line. It is a hook of the trainer.
type progress struct {
	c           *cli.Call
	now         func() time.Time
	stopped     func()
	records     atomic.Uint64 // done so far
	version     atomic.Uint64 // of the model; 0 for none
	mu          sync.Mutex
	src         stream.Source // source of the records; nil if its size is unknown
	bounded     bool          // src stops at the current ends of its topics
	unit        string        // what is counted
	total       uint64        // how many there are; 0 if src knows
	begin, last mark          // at the start, and at the latest line
	queued      int64         // records that have been read but not learned
	phase       string        // what the command is doing; may be empty
	tuning      struct {      // when tuning began, and the share of it that is done
		at    time.Time
		share float64
	}
	look  func()         // sets records, version and facts before they are shown; may be nil
	facts []any          // further names and values
	e     *engine.Engine // of the run, once it has started
	seen  time.Time      // when e was looked at
	tuned bool           // the tuner's table has been printed
}

// mark is the number of records done at a point in time.
type mark struct {
	at      time.Time
	records uint64
}

// refresh is the least time between two looks at an engine.
const refresh = 200 * time.Millisecond

// startProgress prints the line that says what a command does, and starts reporting.
func startProgress(c *cli.Call, format string, args ...any) *progress {
	p := &progress{c: c, now: time.Now, stopped: func() {}, unit: "records"}
	p.begin.at = p.now()
	p.last = p.begin
	if say(c, format, args...); c.Quiet {
		return p
	}
	every := progressEvery
	if p.live() {
		every = progressLive
	}
	ends, ended := make(chan struct{}), make(chan struct{})
	p.stopped = sync.OnceFunc(func() {
		close(ends)
		<-ended
		if p.live() {
			p.c.Live("")
		}
	})
	crash.Go(func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.print()
			case <-ends:
				return
			}
		}
	})
	return p
}

// slowAfter is the time after which a command that waits says so. Tests shorten it.
var slowAfter = 2 * time.Second

// awaiting says that the command waits for the brokers, unless the function that it
// returns is called soon.
func awaiting(c *cli.Call, brokers []string) (done func() bool) {
	return time.AfterFunc(slowAfter, crash.Func(func() { say(c, "waiting for an answer of %s, for up to %v", strings.Join(brokers, ","), patience) })).Stop
}

// say prints a line for the user, unless none is wanted.
func say(c *cli.Call, format string, args ...any) {
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	switch {
	case text == "" || c.Quiet:
	case c.JSONLog:
		slog.New(slog.NewJSONHandler(c.Err, nil)).Info(text)
	default:
		fmt.Fprintln(c.Err, text)
	}
}

func (p *progress) live() bool { return p.c.Live != nil && !p.c.JSONLog }

// counts sets what is counted, and how many there are, 0 if that is unknown.
func (p *progress) counts(unit string, total uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unit, p.total = unit, total
}

// reads sets the source of the records, nil if it comes later. bounded is for topics that are
// read to their current ends.
func (p *progress) reads(src stream.Source, bounded bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.src, p.bounded, p.phase = src, bounded, ""
}

// shows sets the phase, and further names and values to show.
func (p *progress) shows(phase string, facts ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase, p.facts = phase, facts
}

// print shows how far the command has got.
func (p *progress) print() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.look != nil {
		p.look()
	}
	now, n := p.now(), p.records.Load()
	rate := float64(n-p.last.records) / max(now.Sub(p.last.at).Seconds(), 1e-3)
	if rate = math.Round(10*rate) / 10; rate >= 10 {
		rate = math.Round(rate)
	}
	p.last = mark{now, n}
	phase, facts := p.phase, []any{}
	lag, total := p.extent(n)
	if lag >= 0 {
		facts = append(facts, "lag", lag)
	}
	if facts = append(facts, p.facts...); p.version.Load() > 0 {
		facts = append(facts, "version", p.version.Load())
	}
	if phase == "" && n == p.begin.records && lag == 0 {
		phase = "waiting for records"
	}
	share, left := float64(n)/float64(max(total, 1)), time.Duration(0)
	if did := float64(n-p.begin.records) / float64(max(total, 1)); p.tuning.share > 0 {
		share, total = p.tuning.share, 1
		left = time.Duration(float64(now.Sub(p.tuning.at)) * (1 - share) / share).Round(time.Second)
	} else if did > 0 {
		left = time.Duration(float64(now.Sub(p.begin.at)) * (1 - share) / did).Round(time.Second)
	}
	if p.c.JSONLog {
		if facts = append([]any{p.unit, n, "per_second", rate, "phase", phase}, facts...); total > 0 {
			facts = append(facts, "share", share, "seconds_left", left.Seconds())
		}
		slog.New(slog.NewJSONHandler(p.c.Err, nil)).Info("progress", facts...)
		return
	}
	var b strings.Builder
	if total > 0 {
		if full := int(20 * share); p.live() {
			b.WriteString("[" + strings.Repeat("#", full) + strings.Repeat("-", 20-full) + "] ")
		}
		fmt.Fprintf(&b, "%.0f %%, %v left, ", 100*share, left)
	}
	fmt.Fprintf(&b, "%d %s, %v/s", n, p.unit, rate)
	for i := 0; i < len(facts); i += 2 {
		if v, ok := facts[i+1].(eval.Number); ok {
			facts[i+1] = short(float64(v))
		}
		fmt.Fprintf(&b, ", %v %v", facts[i], facts[i+1])
	}
	if phase != "" {
		b.WriteString("; " + phase)
	}
	if p.live() {
		p.c.Live(b.String())
	} else {
		fmt.Fprintln(p.c.Err, b.String())
	}
}

// extent returns how many records are left in the topics, -1 if unknown, and how many
// there are in all, 0 if there is no end or it is unknown.
func (p *progress) extent(n uint64) (lag int64, total uint64) {
	switch src := p.src.(type) {
	case *fileio.Source:
		return -1, max(src.Total(), n)
	case stream.Lagger:
		lag = p.queued
		for _, k := range src.Lag() {
			lag += k
		}
		if p.bounded {
			total = n + uint64(lag)
		}
		return lag, total
	}
	return -1, p.total
}

// Discovering implements trainer.HookDiscovery.
func (p *progress) Discovering(src stream.Source, records int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records.Store(uint64(records))
	if p.src, p.phase = src, "finding out the format of the records"; records == 0 {
		p.phase = "waiting for the first record"
	}
}

// Resumed implements trainer.HookResumed.
func (p *progress) Resumed(h checkpoint.Header) {
	p.version.Store(h.ModelVersion)
	say(p.c, "resuming from the checkpoint of %s: %d examples, model version %d", h.Created.UTC().Format(time.RFC3339), h.Examples, h.ModelVersion)
}

// Published implements trainer.HookPublished.
func (p *progress) Published(u *stream.Update, _ time.Duration) { p.version.Store(u.Version) }

// Tuning implements engine.TuningHook.
func (p *progress) Tuning(share float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.phase = "tuning"; p.tuning.share == 0 {
		p.tuning.at = p.now()
	}
	p.tuning.share = share
}

// Started implements engine.StartedHook.
func (p *progress) Started(e *engine.Engine, src stream.Source) {
	p.mu.Lock()
	if p.src == nil {
		p.src = src
	}
	p.e, p.begin = e, mark{p.now(), e.Counts().Consumed}
	p.last, p.tuned = p.begin, e.Started()
	p.mu.Unlock()
	p.Consumed(e, 0)
}

// Consumed implements engine.ConsumedHook.
func (p *progress) Consumed(e *engine.Engine, queued int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, count := p.now(), e.Counts()
	p.records.Store(count.Consumed)
	p.queued, p.tuning.share = queued, 0
	if !p.tuned && e.Started() {
		p.tuned = true
		if rows := e.Tuned(); len(rows) > 0 && !p.c.JSONLog && !p.c.Quiet {
			printTuning(p.c.Err, rows)
		}
	}
	if now.Sub(p.seen) < refresh && queued > 0 {
		return
	}
	p.seen, p.phase, p.facts = now, "", nil
	if n, of := e.Warmup(); !e.Started() && n > 0 {
		p.phase = fmt.Sprintf("warm-up, %d of %d examples", n, of)
	}
	if count.Dead > 0 {
		p.facts = append(p.facts, "refused", count.Dead)
	}
	// Not a whole Summary: with nothing queued this runs after every batch.
	if q := e.Prequential(); q.Examples() > 0 {
		_, window := q.Score()
		name := "accuracy"
		if q.Regression() {
			name = "mean absolute error"
		}
		p.facts = append(p.facts, name, eval.Number(window))
	}
}

// done prints a line about all records, unless the last one was.
func (p *progress) done() {
	p.mu.Lock()
	old := p.last.records == p.records.Load() && p.last != p.begin
	p.mu.Unlock()
	if !old && !p.c.Quiet && !p.live() {
		p.print()
	}
}

func short(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return fmt.Sprintf("%.4f", v)
}

// screen is a terminal with a last line that is rewritten, below the output through over.
type screen struct {
	mu    sync.Mutex
	w     io.Writer
	width func() int // in characters; 0 if it is not known
	line  string
}

// rewrite replaces the line; an empty one removes it.
func (s *screen) rewrite(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := cmp.Or(s.width(), 80) - 1; len(line) > n {
		line = line[:max(n, 0)]
	}
	if line != s.line {
		s.line = line
		_, _ = io.WriteString(s.w, "\r\x1b[K"+line)
	}
}

// over is a writer to a file on the terminal.
type over struct {
	*screen
	w io.Writer
}

// Write implements io.Writer.
func (o over) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.line != "" {
		_, _ = io.WriteString(o.screen.w, "\r\x1b[K")
	}
	n, err := o.w.Write(b)
	o.line = "" // it comes back with the next rewrite
	return n, err
}
