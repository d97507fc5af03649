package status

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/page"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/stream/codec"
)

const (
	maxSeries  = 6   // of a chart
	maxClasses = 12  // in the confusion matrix
	maxName    = 60  // characters of text from outside
	muchPSI    = .25 // a PSI above it is commonly called a large change
	// fewExamples are too few for a verdict on an accuracy.
	fewExamples = 100
)

// Quality answers the questions about the predictions: is it learning, is it
// drifting, what does it confuse. The sections have the details. unscored says why
// nothing has been scored.
func (h *History) Quality(now *Snapshot, unscored string) ([]page.Answer, []page.Section) {
	h.mu.Lock()
	defer h.mu.Unlock()
	points := h.points
	if k := len(points); now.Scored > 0 && (k == 0 || now.Scored > points[k-1].at) {
		points = append(slices.Clip(points), now.point())
	}
	order := byChange(now.Fields)
	learning := page.Section{ID: "learning", Title: "Learning", Empty: unscored}
	drift := page.Section{ID: "drift", Title: "Drift", Empty: "The inputs of vectors are not watched, only those of events with named fields."}
	answers := []page.Answer{now.learning(unscored), h.drifting(now, order)}
	if now.Scored > 0 {
		learning.Charts = append(learning.Charts, now.prequential(points, h.changes))
		if now.AsPublished != nil {
			learning.Tables = append(learning.Tables, now.published())
		}
	}
	if len(order) > 0 {
		drift.Tables = append(drift.Tables, now.fields(order))
		if c := now.drift(points, order); len(c.Series) > 0 {
			drift.Charts = append(drift.Charts, c)
		}
	}
	sections := []page.Section{learning, drift}
	if now.Scored > 0 && now.Summary.MAE == nil {
		m := newConfusion(now)
		answers = append(answers, m.answer())
		sections = append(sections, page.Section{ID: "confusion", Title: "Confusion", Tables: []page.Table{m.table()}})
	}
	return answers, sections
}

func (s *Snapshot) learning(unscored string) page.Answer {
	a := page.Answer{Question: "Is it learning?", Text: "not known", Detail: unscored, Section: "learning"}
	w, verdict := &s.Summary.Window, "yes"
	a.Bad = s.Scored > 0 && useless(w)
	switch {
	case s.Scored == 0:
		return a
	case s.Summary.MAE != nil:
		a.Text = fmt.Sprintf("mean absolute error %s", page.Number(float64(*w.MAE)))
		a.Detail = fmt.Sprintf("last %d examples; R² %s, which is 0 for always predicting the mean", w.Examples, page.Number(float64(*w.R2)))
	default:
		a.Text = "accuracy " + eval.Percent(w.Accuracy)
		a.Detail = fmt.Sprintf("last %d examples; always the more frequent class %s, the label before %s", w.Examples, eval.Percent(w.Baseline.Majority), eval.Percent(w.Baseline.NoChange))
		if _, rare := w.Rare(); rare || len(s.Classes) > 2 {
			a.Detail += "; balanced accuracy " + eval.Percent(w.BalancedAccuracy)
		}
	}
	if a.Bad {
		verdict = "no"
	}
	a.Text = verdict + ", " + a.Text
	if p := s.AsPublished; p != nil && p.Examples > 0 {
		if useless(&p.Window) && !a.Bad {
			a.Bad = true
			a.Text += "; not"
		} else {
			a.Text += ","
		}
		if p.MAE != nil {
			a.Text += " as published " + page.Number(float64(*p.Window.MAE))
		} else {
			a.Text += " as published " + eval.Percent(p.Window.Accuracy)
		}
	}
	return a
}

// useless reports whether predictions are no better than a baseline that ignores the
// features.
func useless(w *eval.Window) bool {
	if w.MAE != nil {
		return *w.R2 <= 0
	}
	return w.Examples >= fewExamples && w.Accuracy < max(w.Baseline.Majority, w.Baseline.NoChange)
}

// published returns the table that compares the trainer's own predictions with the ones
// that subscribers get.
func (s *Snapshot) published() page.Table {
	p := s.AsPublished
	t := page.Table{
		Title: "The trainer's predictions, and those as published",
		Note:  "As published: by the version published last when the example arrived, and by the age of that version.",
	}
	if p.Version > 0 {
		t.Note += fmt.Sprintf(" Version %d was made at %s and %s ago.", p.Version, p.Created.UTC().Format(time.DateTime), page.Count(p.Age, "example"))
	}
	t.Head = []string{"predictions", "examples", "accuracy", "log loss", "Brier score", "AUC", "calibration error"}
	if s.Summary.MAE != nil {
		t.Head = []string{"predictions", "examples", "mean abs. error", "RMSE", "R²"}
	} else if len(s.Classes) > 2 {
		t.Head = t.Head[:5] // the others are of two classes
	}
	row := func(name string, n uint64, m *eval.Measures) {
		r := []string{name, page.Count(n, "")}
		number := func(v eval.Number) { r = append(r, page.Number(float64(v))) }
		if m.MAE != nil {
			number(*m.MAE)
			number(*m.RMSE)
			number(*m.R2)
		} else {
			r = append(r, eval.Percent(m.Accuracy))
			number(m.LogLoss)
			number(m.Brier)
			number(m.AUC)
			number(m.ECE)
		}
		t.Rows = append(t.Rows, r[:len(t.Head)])
	}
	for _, v := range []struct {
		name string
		n    uint64
		*eval.Summary
	}{{"trainer", s.Scored, &s.Summary}, {"as published", p.Examples, &p.Summary}} {
		row(v.name, v.n, &v.Measures)
		row(v.name+", the last ones", uint64(v.Window.Examples), &v.Window.Measures)
	}
	for i := range p.ByAge {
		g, age := &p.ByAge[i], ""
		if g.Examples == 0 {
			continue
		}
		switch {
		case i == 0:
			age = "up to " + page.Count(g.To, "example")
		case i == len(p.ByAge)-1:
			age = "over " + page.Count(p.ByAge[i-1].To, "example")
		default:
			age = fmt.Sprintf("%s to %s", page.Count(p.ByAge[i-1].To, ""), page.Count(g.To, "example"))
		}
		row(age+" old", g.Examples, &g.Measures)
	}
	return t
}

// drifting distinguishes changes of the stream that the learner found, and has already
// adapted to, from changes of the inputs, which need attention.
func (h *History) drifting(now *Snapshot, order []int) page.Answer {
	a := page.Answer{Question: "Is it drifting?", Text: "no change found", Section: "drift"}
	if n := len(h.changes); n > 0 {
		a.Text = page.Count(n, "change point")
		a.Detail = fmt.Sprintf("the last change point %s ago", page.Count(now.Scored+now.Unscored-h.changes[n-1], "example"))
	}
	if len(order) > 0 && now.Fields[order[0]].PSI >= 0 {
		f := &now.Fields[order[0]]
		if a.Bad = f.PSI > muchPSI; a.Bad {
			a.Text = "yes, the inputs have changed"
		}
		if a.Detail != "" {
			a.Detail += "; "
		}
		a.Detail += fmt.Sprintf("largest change: %s, PSI %.2f", page.Clip(f.Name, maxName), f.PSI)
	}
	return a
}

// prequential returns the chart of accuracy or error with the baselines and the
// change points.
func (s *Snapshot) prequential(points []point, changes []uint64) page.Chart {
	c := page.Prequential(s.Summary.MAE != nil, "")
	window := page.Series{Name: fmt.Sprintf("last %d examples", s.Summary.Window.Examples), Look: page.Faint}
	all := page.Series{Name: "all examples"}
	majority := page.Series{Name: "more frequent class", Look: page.Dashed}
	noChange := page.Series{Name: "label before", Look: page.Dotted}
	for _, p := range s.Curve {
		window.Add(float64(p.Examples), p.Window)
		all.Add(float64(p.Examples), p.All)
	}
	for i := range points {
		p := &points[i]
		if s.Curve == nil {
			window.Add(float64(p.at), p.window)
			all.Add(float64(p.at), p.all)
		}
		majority.Add(float64(p.at), p.majority)
		noChange.Add(float64(p.at), p.noChange)
	}
	c.Series = []page.Series{window, all}
	if s.Summary.MAE == nil {
		c.Caption += " The two baselines ignore the features: a model that is not above both has learned nothing useful."
		c.Series = append(c.Series, majority, noChange)
	}
	marks := page.Marks{}
	for _, at := range changes {
		if at >= s.Unscored { // after the warm-up
			marks.At = append(marks.At, float64(at-s.Unscored))
		}
	}
	if marks.Name = page.Count(len(marks.At), "change point"); len(marks.At) > 0 {
		c.Marks = []page.Marks{marks}
	}
	return c
}

// byChange returns the indices of the fields, the most changed first.
func byChange(fields []codec.FieldCount) []int {
	order := make([]int, len(fields))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(fields[b].PSI, fields[a].PSI) }) // NaN is last
	return order
}

// drift returns the chart of the fields that changed most.
func (s *Snapshot) drift(points []point, order []int) page.Chart {
	c := page.Chart{Title: "Change of fields", X: page.Axis{Label: "events read"}, Y: page.Axis{Label: "PSI", Zero: true}}
	shown := slices.Sorted(slices.Values(order[:min(maxSeries, len(order))])) // a field keeps its colour
	for _, k := range shown {
		line := page.Series{Name: page.Clip(s.Fields[k].Name, maxName)}
		for i := range points {
			at, n := float64(points[i].events), len(line.X)
			if k < len(points[i].psi) && !math.IsNaN(points[i].psi[k]) && (n == 0 || at > line.X[n-1]) {
				line.Add(at, points[i].psi[k])
			}
		}
		if len(line.X) > 0 {
			c.Series = append(c.Series, line)
		}
	}
	return c
}

func (s *Snapshot) fields(order []int) page.Table {
	t := page.Table{
		Title: "Fields of events", Head: []string{"field", "PSI", "type", "missing", "unknown", "invalid", "out of range"},
		Note: "Compared with the first events. PSI is the population stability index: below 0.1 little has changed, above 0.25 much.",
	}
	if n := len(order) - maxFields; n > 0 {
		t.Note = fmt.Sprintf("And %d more fields. %s", n, t.Note)
	}
	for _, k := range order[:min(len(order), maxFields)] {
		f := &s.Fields[k]
		psi := "–"
		if !math.IsNaN(f.PSI) {
			psi = fmt.Sprintf("%.3f", f.PSI)
		}
		row := []string{page.Clip(f.Name, maxName), psi, string(f.Type)}
		for _, n := range []uint64{f.Missing, f.Unknown, f.Invalid, f.Outside} {
			row = append(row, eval.Percent(float64(n)/float64(max(s.Events, 1))))
		}
		t.Rows = append(t.Rows, row)
		t.Heat = append(t.Heat, []float64{min(max(f.PSI, 0), 1)})
	}
	return t
}

// confusion is the confusion matrix over the window. If there are many classes, less
// frequent ones are merged into one.
type confusion struct {
	names             []string
	hits              [][]uint64 // by class and prediction
	recall, precision []eval.Number
	n                 int // examples of the window
}

func newConfusion(s *Snapshot) *confusion {
	w := &s.Summary.Window
	m, hits, classes := &confusion{n: w.Examples}, w.Confusion, w.Classes
	if classes == nil {
		classes = make([]eval.Class, 2)
		for k := range classes {
			hits = append(hits, w.Hits[k][:])
			classes[k] = eval.Class{Label: s.Classes[k], Examples: w.Hits[k][0] + w.Hits[k][1], Recall: w.Recall(k), Precision: w.Precision(k)}
		}
	}
	order := make([]int, len(classes))
	for k := range order {
		order[k] = k
	}
	if len(order) > maxClasses {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(classes[b].Examples, classes[a].Examples) })
	}
	size, place := min(len(order), maxClasses), make([]int, len(order))
	for i, k := range order {
		place[k] = min(i, size-1)
		if i < size {
			m.names, m.hits = append(m.names, page.Clip(classes[k].Label, maxName/3)), append(m.hits, make([]uint64, size))
			m.recall, m.precision = append(m.recall, classes[k].Recall), append(m.precision, classes[k].Precision)
		}
	}
	for y, row := range hits {
		for p, c := range row {
			m.hits[place[y]][place[p]] += c
		}
	}
	if len(order) > maxClasses {
		nan := eval.Number(math.NaN())
		m.names[size-1], m.recall[size-1], m.precision[size-1] = fmt.Sprintf("%d others", len(order)-size+1), nan, nan
	}
	return m
}

func (m *confusion) answer() page.Answer {
	a := page.Answer{Question: "What does it confuse?", Text: "nothing", Detail: fmt.Sprintf("last %d examples", m.n), Section: "confusion"}
	most := uint64(0)
	for y, row := range m.hits {
		total := uint64(0)
		for _, c := range row {
			total += c
		}
		for p, c := range row {
			if y != p && c > most {
				most = c
				a.Text = fmt.Sprintf("%s taken for %s", m.names[y], m.names[p])
				a.Detail = fmt.Sprintf("%d of %d, in the last %d examples; the most frequent mistake", c, total, m.n)
			}
		}
	}
	return a
}

func (m *confusion) table() page.Table {
	t := page.Table{
		Title: fmt.Sprintf("Predictions by class, last %d examples", m.n), Head: append([]string{"class"}, m.names...),
		Note: "A row has the examples of a class, a column the class that was predicted.",
	}
	t.Head = append(t.Head, "recall", "precision")
	for i, row := range m.hits {
		cells, heat, sum := []string{m.names[i]}, make([]float64, len(row)), 0.
		for _, c := range row {
			sum += float64(c)
		}
		for p, c := range row {
			cells = append(cells, fmt.Sprint(c))
			heat[p] = float64(c) / max(sum, 1)
		}
		t.Rows = append(t.Rows, append(cells, eval.Percent(m.recall[i]), eval.Percent(m.precision[i])))
		t.Heat = append(t.Heat, heat)
	}
	return t
}
