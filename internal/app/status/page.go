package status

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/chart"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/stream/codec"
)

//go:embed page.html
var pageText string

var pageTemplate = chart.Page(pageText)

// policy lets the page run the script of this program and fetch itself.
const policy = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// page is what page.html shows.
type page struct {
	Title, State, Where, Version, Up string
	Problem                          string
	Refresh                          int
	Tiles, Fates, Learner            []named
	Classes                          []eval.Class // over the window, of more than two
	Course                           *chart.Chart // of the prequential measure; nil before the first
	Reliability                      *chart.Chart // nil without probabilities
	Pace                             []chart.Chart
	Lags                             []lag
	Fields                           []field
	Checkpoints, Models, Dead        []event
	now                              time.Time
	failed                           bool // not only stalled
}

type named struct{ Name, Value string }

// field is what has been noticed in a field of events.
type field struct{ Name, Type, Missing, Unknown, Invalid, Outside, PSI string }

// mostFields bounds the fields that are shown.
const mostFields = 50

// fields lists those of events, the ones that have changed most first.
func (v *view) listFields() (list []field) {
	sorted := slices.Clone(v.fields)
	slices.SortStableFunc(sorted, func(a, b codec.FieldCount) int {
		known := func(v float64) float64 {
			if math.IsNaN(v) {
				return -1
			}
			return v
		}
		return cmp.Compare(known(b.PSI), known(a.PSI))
	})
	share := func(n uint64) string {
		if n == 0 {
			return "–"
		}
		return eval.Percent(eval.Number(float64(n) / float64(max(v.events, 1))))
	}
	for _, f := range sorted[:min(len(sorted), mostFields)] {
		list = append(list, field{f.Name, f.Type, share(f.Missing), share(f.Unknown), share(f.Invalid), share(f.Outside), number(f.PSI)})
	}
	return list
}

// Percent is used by the page.
func (p *page) Percent(v eval.Number) string { return eval.Percent(v) }

// Age is used by the page.
func (p *page) Age(e event) string { return short(p.now.Sub(e.at)) }

// Page returns a handler that answers with the page; stall is as in Healthy.
func (r *Run) Page(stall time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p := r.page()
		if err := r.Healthy(stall); err != nil {
			p.Problem = err.Error()
			if !p.failed {
				p.Problem = "stalled: " + p.Problem
			}
		}
		var b bytes.Buffer
		if err := pageTemplate.Execute(&b, p); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", policy)
		_, _ = w.Write(b.Bytes())
	})
}

func (r *Run) page() *page {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, v, s := r.now(), &r.view, &r.view.summary
	lags, behind := r.lags()
	p := &page{
		now: now, failed: r.failed != nil, Lags: lags, Checkpoints: slices.Clone(r.checkpoints), Models: slices.Clone(r.models), Dead: slices.Clone(r.dead),
		Title: "streamsvm: " + r.about.Learner, Version: r.about.Version, Up: short(now.Sub(r.began)), Refresh: 5,
		State: "learning", Where: "from " + strings.Join(r.about.Topics, ", "),
	}
	if r.about.ModelTopic != "" {
		p.Where += fmt.Sprintf(" to %q on %s", r.about.Model, r.about.ModelTopic)
	}
	switch {
	case v.oneLabel != nil:
		p.State = r.waiting()
	case r.seen.IsZero():
		p.State = "starting: opening checkpoints and topics"
	case !v.started:
		p.State = "warming up: choosing scale and options on the first examples"
	case behind == 0 && v.queued == 0:
		p.State = "up to date"
	}
	at := r.seen
	if now.Sub(at) >= rateOver { // nothing has come since
		at = now
	}
	r.mark(at)
	rate := r.rate(at)
	score := func(m eval.Measures) string {
		switch {
		case v.scored == 0:
			return "–"
		case m.MAE != nil:
			return number(float64(*m.MAE))
		}
		return eval.Percent(m.Accuracy)
	}
	name := "accuracy"
	if s.MAE != nil {
		name = "mean absolute error"
	}
	p.Tiles = []named{
		{"records consumed", count(v.counts.Consumed)}, {"records a second", number(rate)}, {"records behind", count(uint64(max(behind, 0)))},
		{name + ", last " + count(uint64(s.Window.Examples)), score(s.Window.Measures)}, {name + ", all", score(s.Measures)},
	}
	if b := s.Window.Baseline; s.MAE == nil && v.scored > 0 {
		last := ", last " + count(uint64(s.Window.Examples))
		p.Tiles = append(p.Tiles, named{"larger class so far" + last, eval.Percent(b.Majority)}, named{"label before" + last, eval.Percent(b.NoChange)})
	}
	if p.Classes = s.Window.Classes; p.Classes != nil {
		p.Tiles = append(p.Tiles, named{"balanced accuracy, last " + count(uint64(s.Window.Examples)), eval.Percent(s.Window.BalancedAccuracy)})
	}
	p.Tiles = append(p.Tiles, []named{
		{"examples held", count(uint64(max(v.report.Sample, 0)))}, {"steps", count(v.report.Step)},
	}...)
	if len(r.models) > 0 {
		p.Tiles = append(p.Tiles, named{"model version", r.models[0].Cells[0]})
	}
	if r.seen.IsZero() {
		return p
	}
	c := v.counts
	p.Fates = []named{
		{"learned from", count(c.Learned)}, {"sampled out", count(c.SampledOut)},
		{"dead-lettered or dropped as unusable", count(c.Dead)}, {"waiting for the end of the warm-up, or to be joined", count(c.Pending)},
	}
	if c.Tombstones > 0 {
		p.Fates = append(p.Fates, named{"tombstones, skipped", count(c.Tombstones)})
	}
	if v.join != nil {
		p.Fates = append(p.Fates, named{"labels joined with their example", count(c.Joined)}, named{"labels of no use: late, for no example, or a second one", count(c.Late)},
			named{"examples without a label", count(v.join.Missing)})
	}
	if len(v.curve) > 0 {
		c := chart.Prequential(v.curve, s.MAE != nil, s.Window.Examples, math.NaN())
		p.Course = &c
	}
	p.Fields = v.listFields()
	p.Reliability = chart.Reliability(s)
	p.Pace = r.pace()
	p.Learner = r.learner()
	return p
}

// learner lists what is known about the learner.
func (r *Run) learner() []named {
	v := &r.view
	list := []named{{"learner", r.about.Learner}}
	if r.about.Preset != "" {
		list = append(list, named{"preset", r.about.Preset})
	}
	if v.model != "" {
		list = append(list, named{"model", v.model})
	}
	if v.support > 0 {
		list = append(list, named{"support vectors", count(uint64(v.support))})
	}
	list = append(list, named{"coefficients that are not 0", count(uint64(max(v.nonzero, 0)))})
	for _, g := range []struct {
		name string
		v    float64
	}{{"objective", v.report.Objective}, {"its distance from the minimum, at most", v.report.Certificate}, {"gradient norm", v.report.GradNorm}} {
		if !math.IsNaN(g.v) {
			list = append(list, named{g.name, number(g.v)})
		}
	}
	for _, g := range v.report.Gauges {
		list = append(list, named{strings.ReplaceAll(g.Name, "_", " "), number(g.Value)})
	}
	var set []string
	for _, k := range slices.Sorted(maps.Keys(v.options)) {
		set = append(set, k+"="+v.options[k])
	}
	if len(set) > 0 {
		list = append(list, named{"options", strings.Join(set, " ")})
	}
	return list
}

func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case v >= 1000 && v < 1e15:
		return count(uint64(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// count writes n with thin spaces between groups of three digits.
func count(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

// short writes a duration to the precision that a person needs.
func short(d time.Duration) string {
	d = max(d, 0) // the clock may have been set back since
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}
