// Package status shows a service to a person, as a page of HTML: a training run,
// which it also shows to an orchestrator, as healthy or not, or one that predicts.
package status

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/app/chart"
	"github.com/streamsvm/streamsvm/internal/app/course"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/stream"
)

const (
	// refresh bounds how often the engine is looked at: copying the curve costs
	// more than a batch of records does.
	refresh = time.Second
	// recent is how many checkpoints, models and dead letters are listed.
	recent = 8
	// rateOver is the least time over which a rate is taken.
	rateOver = 5 * time.Second
	// maxMarks bounds the marks that are kept: an hour of them.
	maxMarks = int(time.Hour / rateOver)
)

// Run is a hook of a run that remembers what the page shows. Its methods
// may be called at the same time.
type Run struct {
	about About
	now   func() time.Time

	course course.Course
	board  Board

	mu          sync.Mutex
	src         stream.Source
	began, seen time.Time
	view        view
	marks       []mark // at least rateOver apart
	// The latest of each kind, the newest first.
	checkpoints, models, dead []event

	// For Healthy: when the state last moved, and what it was then.
	moved    time.Time
	consumed uint64
	steps    uint64
	failed   error
}

// About is what does not change during a run.
type About struct {
	Version, Learner, Preset string
	Topics                   []string
	ModelTopic, Model        string
}

type view struct {
	counts           engine.Counts
	join             *engine.JoinStats // nil without
	queued           int64
	report           algos.Report
	quality          *course.Now
	options          map[string]string
	model            string
	support, nonzero int
	started          bool
	oneLabel         *stream.OneLabelError // why there is no model, or nil
}

// mark is how far the run was at a time.
type mark struct {
	at      time.Time
	records uint64
	behind  int64
}

// event is something that has happened, as a row of a table.
type event struct {
	at    time.Time
	Cells []string
}

// New returns the status of a run that begins now.
func New(about About) *Run {
	r := &Run{about: about, now: time.Now}
	r.began = r.now()
	r.moved = r.began
	r.view.quality = &course.Now{}
	return r
}

// Show has the page show the aliases of a board. It is called before the page is
// asked for.
func (r *Run) Show(b Board) { r.board = b }

// Started implements engine.StartedHook.
func (r *Run) Started(e *engine.Engine, src stream.Source) {
	r.mu.Lock()
	r.src = src
	r.mu.Unlock()
	r.Consumed(e, 0)
}

// Consumed implements engine.ConsumedHook.
func (r *Run) Consumed(e *engine.Engine, queued int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.course.Consumed(e, queued)
	now := r.now()
	if n, steps := e.Counts().Consumed, e.Report().Step; n != r.consumed || steps != r.steps {
		r.moved, r.consumed, r.steps = now, n, steps
	}
	if !r.seen.IsZero() && now.Sub(r.seen) < refresh && queued > 0 {
		return
	}
	r.seen = now
	v := view{
		counts: e.Counts(), queued: queued, report: e.Report(), quality: course.Look(e), join: e.Join(),
		options: e.Options(), started: e.Started(), oneLabel: e.OneLabel(),
	}
	if p := e.Predictor(); p != nil {
		info := p.Info()
		v.model, v.support, v.nonzero = info.Text, info.Support, info.Nonzero
	}
	r.view = v
	r.mark(now)
}

// mark remembers how far the run is, if the last time is long enough before at.
func (r *Run) mark(at time.Time) {
	if n := len(r.marks); r.seen.IsZero() || n > 0 && at.Sub(r.marks[n-1].at) < rateOver {
		return
	}
	_, lag := r.lags()
	r.marks = append(r.marks, mark{at, r.view.counts.Consumed, lag + r.view.queued})
	r.marks = r.marks[max(0, len(r.marks)-maxMarks):]
}

// rate returns the records consumed a second over rateOver or more before at.
func (r *Run) rate(at time.Time) float64 {
	for i := len(r.marks) - 1; i >= 0; i-- {
		m := &r.marks[i]
		if d := at.Sub(m.at); d >= rateOver || i == 0 && d > 0 {
			return float64(r.view.counts.Consumed-m.records) / d.Seconds()
		}
	}
	return math.NaN()
}

// pace returns charts of the rate and of what waits, over the last hour.
func (r *Run) pace() []chart.Chart {
	var rate, behind chart.Series
	for i, m := range r.marks {
		at := float64(m.at.UnixMilli()) / 1000
		behind.X, behind.Y = append(behind.X, at), append(behind.Y, eval.Number(m.behind))
		if i > 0 {
			was := &r.marks[i-1]
			rate.X, rate.Y = append(rate.X, at), append(rate.Y, eval.Number(float64(m.records-was.records)/m.at.Sub(was.at).Seconds()))
		}
	}
	if len(rate.X) == 0 {
		return nil
	}
	rate.Name, behind.Name = "records/s", "records behind"
	panel := func(title string, s chart.Series) chart.Chart {
		return chart.Chart{Title: title, X: chart.Axis{Time: true}, Y: chart.Axis{Label: s.Name, Zero: true}, Series: []chart.Series{s}}
	}
	return []chart.Chart{panel("Throughput", rate), panel("Lag", behind)}
}

// Dead implements engine.DeadHook.
func (r *Run) Dead(why *stream.RecordError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := why.Error()
	if len(text) > longWhy {
		text = strings.ToValidUTF8(text[:longWhy], "") + "…"
	}
	r.dead = newest(r.dead, r.now(), text)
}

// Checkpointed implements engine.CheckpointedHook.
func (r *Run) Checkpointed(_ string, h checkpoint.Header, bytes int64, _ time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checkpoints = newest(r.checkpoints, h.Created, count(h.Examples), count(uint64(bytes)), fmt.Sprintf("%016x", h.StateHash))
}

// Published implements engine.PublishedHook.
func (r *Run) Published(u *stream.Update, took time.Duration) {
	r.course.Published(u, took)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.models = newest(r.models, u.Created, count(u.Version), count(u.Examples), string(u.Kind), count(uint64(len(u.Payload))))
}

// newest puts an event before list, which keeps its most recent elements.
func newest(list []event, at time.Time, cells ...string) []event {
	list = slices.Insert(list, 0, event{at, cells})
	return list[:min(len(list), recent)]
}

// lag is how far the run is behind in a partition.
type lag struct{ Topic, Partition, Records string }

// lags returns the lag of every partition, in order, and their sum.
func (r *Run) lags() (list []lag, total int64) {
	l, ok := r.src.(stream.Lagger)
	if !ok {
		return nil, 0
	}
	behind := l.Lag()
	for _, p := range slices.SortedFunc(maps.Keys(behind), stream.Partition.Compare) {
		list = append(list, lag{p.Topic, strconv.Itoa(int(p.ID)), count(uint64(max(behind[p], 0)))})
		total += behind[p]
	}
	return list, total
}

// Failed implements engine.FailedHook.
func (r *Run) Failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = err
}

// Waiting says why there is no model, although examples have come; "" if that
// is not so.
func (r *Run) Waiting() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting()
}

func (r *Run) waiting() string {
	if r.view.oneLabel == nil {
		return ""
	}
	return "no model yet: " + r.view.oneLabel.Seen()
}

// Healthy returns nil unless the run cannot go on, or records are waiting and
// none has been consumed, nor a step taken, for longer than stall.
func (r *Run) Healthy(stall time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return r.failed
	}
	still := r.now().Sub(r.moved)
	if still < stall {
		return nil
	}
	_, lag := r.lags()
	if waiting := lag + r.view.queued; waiting > 0 {
		return fmt.Errorf("no progress for %s with %d records waiting", still.Round(time.Second), waiting)
	}
	return nil
}
