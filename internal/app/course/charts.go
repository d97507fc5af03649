package course

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/streamsvm/streamsvm/internal/app/chart"
	"github.com/streamsvm/streamsvm/internal/eval"
)

const (
	// lines bounds the series of a chart of many.
	lines = 6
	// longest bounds the texts of others that are shown, in characters.
	longest = 60
)

// clip shortens a text that somebody else has chosen.
func clip(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// Charts returns the charts of the course, which now ends it. There is none
// before the first example.
func (c *Course) Charts(now *Now) []chart.Chart {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Scored == 0 { // without labels there is no curve
		return nil
	}
	if k := len(c.points); k == 0 || now.Scored > c.points[k-1].at { // for as long as this takes
		kept := c.points
		defer func() { c.points = kept }()
		c.points = append(slices.Clip(kept), newPoint(now.Scored, &now.Summary, now.Fields, now.Events))
	}
	charts := []chart.Chart{c.main(now)}
	for _, more := range []*chart.Chart{c.quality(now), c.labels(now), c.weights()} {
		if more != nil {
			charts = append(charts, *more)
		}
	}
	marks := c.marks(now)
	for i := range charts {
		charts[i].Marks = marks
	}
	if d := c.drift(now); d != nil { // over events, where the marks are not
		charts = append(charts, *d)
	}
	if r := chart.Reliability(&now.Summary); r != nil {
		charts = append(charts, *r)
	}
	return charts
}

// mostTunes is how often options may be chosen anew for marks to say something:
// some learners do so all the time.
const mostTunes = 20

// marks returns what has happened, by the number of examples scored before it.
func (c *Course) marks(now *Now) (list []chart.Marks) {
	add := func(name string, at []float64, tick bool) {
		at = slices.DeleteFunc(at, func(v float64) bool { return !(v >= 0) })
		if len(at) > 0 {
			list = append(list, chart.Marks{Name: name, At: at, Tick: tick})
		}
	}
	var cuts, tunes, versions []float64
	for _, cut := range c.cuts {
		if cut.At >= now.Unscored { // not in the warm-up
			cuts = append(cuts, float64(cut.At-now.Unscored))
		}
	}
	if len(c.tunes) <= mostTunes {
		for _, at := range c.tunes {
			tunes = append(tunes, float64(at)-float64(now.Unscored))
		}
	}
	for i := range c.versions {
		versions = append(versions, c.versions[i].measure("prequential_examples"))
	}
	add(fmt.Sprintf("cuts of the sample: %d", len(cuts)), cuts, false)
	add("options chosen anew", tunes, false)
	add("versions published", versions, true)
	return list
}

// series returns the course of a number, without the points that have none.
func (c *Course) series(name string, look chart.Look, of func(*point) float64) (s chart.Series) {
	s.Name, s.Look = name, look
	for i := range c.points {
		p := &c.points[i]
		if v := of(p); !math.IsNaN(v) {
			s.X, s.Y = append(s.X, float64(p.at)), append(s.Y, eval.Number(v))
		}
	}
	return s
}

// element returns v[k], NaN where there is none.
func element(v []float64, k int) float64 {
	if k < len(v) {
		return v[k]
	}
	return math.NaN()
}

func (c *Course) main(now *Now) chart.Chart {
	points := now.Curve
	if points == nil {
		for _, p := range c.points {
			points = append(points, eval.Point{Examples: p.at, All: p.all, Window: p.window})
		}
	}
	m := chart.Prequential(points, now.Summary.MAE != nil, now.Summary.Window.Examples)
	if now.Summary.MAE != nil {
		return m
	}
	m.Caption += " The two rules do not look at the features: a model that is not above them has learned nothing of use."
	for _, s := range []chart.Series{
		c.series("larger class so far", chart.Dashed, func(p *point) float64 { return float64(p.larger) }),
		c.series("label before", chart.Dotted, func(p *point) float64 { return float64(p.noChange) }),
	} {
		if len(s.X) > 0 {
			m.Series = append(m.Series, s)
		}
	}
	return m
}

// quality returns the chart of measures that do not depend on how frequent the
// classes are.
func (c *Course) quality(now *Now) *chart.Chart {
	q := chart.Chart{
		Title: fmt.Sprintf("AUC and balanced accuracy, last %d examples", now.Summary.Window.Examples), X: chart.Axis{Label: "examples"}, Y: chart.Axis{Label: "share", Percent: true},
		Caption: "AUC is how often a positive example has a higher score than a negative one, balanced accuracy the mean of the classes' recalls. Both are 50 % for a coin.",
	}
	if len(now.Classes) > 2 {
		q.Title = fmt.Sprintf("Balanced accuracy, last %d examples", now.Summary.Window.Examples)
		q.Caption = "The mean of the classes' recalls."
	}
	for _, s := range []chart.Series{
		c.series("AUC", chart.Strong, func(p *point) float64 { return float64(p.auc) }),
		c.series("balanced accuracy", chart.Strong, func(p *point) float64 { return float64(p.balanced) }),
	} {
		if len(s.X) > 0 {
			q.Series = append(q.Series, s)
		}
	}
	if now.Summary.MAE != nil || len(q.Series) == 0 {
		return nil
	}
	return &q
}

// labels returns the chart of the shares of labels: of the positive one of two,
// or of the most frequent ones of more.
func (c *Course) labels(now *Now) *chart.Chart {
	if now.Summary.MAE != nil || len(c.points) == 0 {
		return nil
	}
	l := chart.Chart{
		Title: fmt.Sprintf("Labels, last %d examples", now.Summary.Window.Examples), X: chart.Axis{Label: "examples"}, Y: chart.Axis{Label: "share of examples", Percent: true, Zero: true},
		Caption: "How the mix of labels changes.",
	}
	share := func(name string, k int) chart.Series {
		return c.series(clip(name, longest), chart.Strong, func(p *point) float64 { return element(p.share, k) })
	}
	list := perClass(&now.Summary.Window.Measures, now.Classes)
	if len(list) == 2 {
		l.Series = []chart.Series{share("label "+list[1].Label, 1)}
		return &l
	}
	order := mostFrequent(list)
	rest := order[min(lines, len(order)):]
	shown := order[:len(order)-len(rest)]
	slices.Sort(shown) // each keeps its colour for as long as the same are shown
	for _, k := range shown {
		l.Series = append(l.Series, share(list[k].Label, k))
	}
	if len(rest) > 0 {
		l.Series = append(l.Series, c.series(fmt.Sprintf("%d others", len(rest)), chart.Strong, func(p *point) (sum float64) {
			for _, k := range rest {
				if k < len(p.share) {
					sum += p.share[k]
				}
			}
			return sum
		}))
	}
	return &l
}

// mostFrequent returns the numbers of classes, the most frequent one first.
func mostFrequent(list []eval.Class) []int {
	order := make([]int, len(list))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(list[b].Examples, list[a].Examples) })
	return order
}

// weights returns the chart of a vote, nil where there is none.
func (c *Course) weights() *chart.Chart {
	if len(c.weighted) == 0 {
		return nil
	}
	w := chart.Chart{
		Title: "Weights", X: chart.Axis{Label: "examples"}, Y: chart.Axis{Label: "weight", Percent: true, Zero: true},
		Caption: "The share of each expert in the vote.",
	}
	for k, name := range c.weighted {
		w.Series = append(w.Series, c.series(name, chart.Strong, func(p *point) float64 { return element(p.weight, k) }))
	}
	return &w
}

// drift returns the chart of the fields that have changed most.
func (c *Course) drift(now *Now) *chart.Chart {
	d := chart.Chart{
		Title: "Change of fields", X: chart.Axis{Label: "events read"}, Y: chart.Axis{Label: "PSI", Zero: true},
		Caption: "The population stability index against the first events, of the fields that have changed most: below 0.1 little has changed, above 0.25 much.",
	}
	order := byChange(now.Fields[:min(len(now.Fields), maxFields)])
	order = order[:min(lines, len(order))]
	slices.Sort(order)
	for _, k := range order {
		s := chart.Series{Name: clip(now.Fields[k].Name, longest)}
		for i := range c.points {
			at := float64(c.points[i].events)
			if v, n := element(c.points[i].psi, k), len(s.X); !math.IsNaN(v) && (n == 0 || at > s.X[n-1]) {
				s.X, s.Y = append(s.X, at), append(s.Y, eval.Number(v))
			}
		}
		if len(s.X) > 0 {
			d.Series = append(d.Series, s)
		}
	}
	if len(d.Series) == 0 {
		return nil
	}
	return &d
}
