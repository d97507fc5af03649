package status

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/chart"
	"github.com/streamsvm/streamsvm/internal/app/course"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// policy lets the page run the script of this program and fetch itself.
const policy = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// page is what a page shows.
type page struct {
	Title, State, Where, Version, Up string
	Problem                          string
	Refresh                          int
	Tiles                            []named
	Course                           []chart.Chart // none before the first example is scored
	NoCourse                         string        // why there is none
	Quality                          []chart.Table
	Versions                         *chart.Chart
	Models                           chart.Table
	Aliases                          chart.Table
	Admin                            bool
	Pair                             *course.Pair // nil while there are not two versions
	Pace                             []chart.Chart
	Service                          []chart.Table
	failed                           bool // not only stalled
	board                            Board
}

type named struct{ Name, Value string }

// ages lists events as rows, with their age at the given place.
func ages(now time.Time, list []event, place int) (rows [][]string) {
	for _, e := range list {
		rows = append(rows, slices.Insert(slices.Clone(e.Cells), place, short(now.Sub(e.at))))
	}
	return rows
}

// Page returns a handler that answers with the page; stall is as in Healthy.
func (r *Run) Page(stall time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		p := r.page()
		if err := r.Healthy(stall); err != nil {
			p.Problem = err.Error()
			if !p.failed {
				p.Problem = "stalled: " + p.Problem
			}
		}
		p.write(w, q, &r.course)
	})
}

// write answers with the page. The query may say which two versions are compared.
func (p *page) write(w http.ResponseWriter, q *http.Request, c *course.Course) {
	chosen := func(name string) uint64 {
		n, _ := strconv.ParseUint(q.FormValue(name), 10, 64)
		return n
	}
	var moves []modeltopic.Move
	if p.board.Moves != nil {
		moves = p.board.Moves()
	}
	p.Versions, p.Pair = c.Versions(moves), c.Compare(chosen("a"), chosen("b"))
	p.Aliases, p.Admin = aliases(moves), p.board.Admin
	text, err := p.html()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = io.WriteString(w, text)
}

// Board is what a page has of the aliases of its model.
type Board struct {
	// Moves returns the promotions that are known; nil is none.
	Moves func() []modeltopic.Move
	// Admin tells that the page is to have buttons that promote, which post to
	// admin/promote and admin/rollback.
	Admin bool
}

// aliases lists what each alias stands for, the one that was moved last first.
func aliases(moves []modeltopic.Move) chart.Table {
	t := chart.Table{Title: "Aliases", Head: []string{"alias", "version", "before", "since", "by", "reason"}}
	var seen []string
	for _, m := range slices.Backward(moves) {
		if slices.Contains(seen, m.Alias) {
			continue
		}
		seen = append(seen, m.Alias)
		previous := "–"
		if m.Previous > 0 {
			previous = count(m.Previous)
		}
		t.Rows = append(t.Rows, []string{m.Alias, count(m.Version), previous, m.At.UTC().Format(time.DateTime), m.By, m.Reason})
	}
	return t
}

func (r *Run) page() *page {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, v := r.now(), &r.view
	lags, behind := r.lags()
	p := &page{
		failed: r.failed != nil, board: r.board,
		Title: "streamsvm: " + r.about.Learner, Version: r.about.Version, Up: short(now.Sub(r.began)), Refresh: 5,
		NoCourse: "Nothing has been scored yet.",
		State:    "learning", Where: "from " + strings.Join(r.about.Topics, ", "),
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
	p.Tiles = append([]named{
		{"records consumed", count(v.counts.Consumed)}, {"records a second", number(r.rate(at))}, {"records behind", count(uint64(max(behind, 0)))},
	}, scores(v.quality)...)
	p.Tiles = append(p.Tiles, []named{
		{"examples held", count(uint64(max(v.report.Sample, 0)))}, {"steps", count(v.report.Step)},
	}...)
	if len(r.models) > 0 {
		p.Tiles = append(p.Tiles, named{"model version", r.models[0].Cells[0]})
	}
	p.Course, p.Quality = r.course.Charts(v.quality), v.quality.Tables()
	p.Models = chart.Table{Title: "Model versions", Head: []string{"version", "age", "examples", "form", "bytes"}, Rows: ages(now, r.models, 1)}
	p.Service = r.service(now, lags)
	if !r.seen.IsZero() {
		p.Pace = r.pace()
		p.Service = append(p.Service, r.learner())
	}
	return p
}

// scores are the tiles that say how good predictions are.
func scores(n *course.Now) (list []named) {
	s, w := &n.Summary, &n.Summary.Window
	last := fmt.Sprintf(", last %d", w.Examples)
	if s.MAE != nil {
		if n.Scored > 0 {
			list = append(list, named{"mean absolute error" + last, number(float64(*w.MAE))}, named{"mean absolute error, all", number(float64(*s.MAE))})
		}
		return list
	}
	add := func(name string, v eval.Number) {
		text := "–"
		if n.Scored > 0 && !math.IsNaN(float64(v)) {
			text = eval.Percent(v)
		}
		list = append(list, named{name, text})
	}
	add("accuracy"+last, w.Accuracy)
	add("accuracy, all", s.Accuracy)
	if n.Scored == 0 {
		return list
	}
	add("larger class so far"+last, w.Baseline.Majority)
	add("label before"+last, w.Baseline.NoChange)
	add("balanced accuracy"+last, w.BalancedAccuracy)
	if len(n.Classes) <= 2 {
		add("AUC"+last, w.AUC)
	}
	return list
}

// service lists what else the run does than learn.
func (r *Run) service(now time.Time, lags []lag) []chart.Table {
	v := &r.view
	fates, behind := chart.Table{Title: "Records consumed"}, chart.Table{Title: "Lag by partition", Head: []string{"topic", "partition", "records behind"}}
	add := func(name string, n uint64) { fates.Rows = append(fates.Rows, []string{name, count(n)}) }
	add("learned from", v.counts.Learned)
	add("sampled out", v.counts.SampledOut)
	add("dead-lettered or dropped as unusable", v.counts.Dead)
	add("waiting for the end of the warm-up, or to be joined", v.counts.Pending)
	if v.counts.Tombstones > 0 {
		add("tombstones, skipped", v.counts.Tombstones)
	}
	if v.join != nil {
		add("labels joined with their example", v.counts.Joined)
		add("labels of no use: late, for no example, or a second one", v.counts.Late)
		add("examples without a label", v.join.Missing)
	}
	for i, l := range lags {
		if i == mostLags {
			behind.Note = fmt.Sprintf("And %d partitions more.", len(lags)-i)
			break
		}
		behind.Rows = append(behind.Rows, []string{l.Topic, l.Partition, l.Records})
	}
	return []chart.Table{
		fates, behind,
		{Title: "Checkpoints", Head: []string{"age", "records", "bytes", "state hash"}, Rows: ages(now, r.checkpoints, 0)},
		{Title: "Dead letters", Head: []string{"age", "why"}, Rows: ages(now, r.dead, 0), Note: "Those since this process started, the latest ones."},
	}
}

// Bounds of what is shown.
const (
	mostLags = 100
	longWhy  = 600 // characters of what is wrong with a record
)

// learner lists what is known about the learner.
func (r *Run) learner() chart.Table {
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
	t := chart.Table{Title: "Learner"}
	for _, l := range list {
		t.Rows = append(t.Rows, []string{l.Name, l.Value})
	}
	return t
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
