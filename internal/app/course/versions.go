package course

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/internal/app/chart"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// Versions returns the chart of the versions published, by their time; nil before
// the first. They are those of this process, the latest ones. Those that an alias
// stands for, or has stood for, are marked.
func (c *Course) Versions(moves []modeltopic.Move) *chart.Chart {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range []struct {
		name, title, label string
		percent            bool
	}{
		{"prequential_accuracy_window", "accuracy before publication", "accuracy", true},
		{"prequential_mae_window", "error before publication", "mean absolute error", false},
	} {
		s := chart.Series{Name: m.title, Look: chart.Points}
		for i := range c.versions {
			v := &c.versions[i]
			at := float64(v.created.UnixMilli()) / 1000
			if k := len(s.X); k > 0 && at <= s.X[k-1] { // the clock has been set back
				continue
			}
			if y := v.measure(m.name); !math.IsNaN(y) {
				s.X, s.Y = append(s.X, at), append(s.Y, eval.Number(y))
			}
		}
		if len(s.X) > 0 {
			return &chart.Chart{
				Title: "Versions over time", X: chart.Axis{Time: true}, Y: chart.Axis{Label: m.label, Percent: m.percent}, Series: append([]chart.Series{s}, c.promoted(moves, m.name)...),
				Caption: "Each point is a version of the model, with what it came to over the window at that moment.",
			}
		}
	}
	return nil
}

// promoted returns a series for each alias: the versions that it has stood for.
func (c *Course) promoted(moves []modeltopic.Move, measure string) (list []chart.Series) {
	var aliases []string
	for _, m := range moves {
		if !slices.Contains(aliases, m.Alias) && len(aliases) < maxAliases {
			aliases = append(aliases, m.Alias)
		}
	}
	slices.Sort(aliases)
	for _, alias := range aliases {
		s := chart.Series{Name: alias, Look: chart.Dots}
		for i := range c.versions {
			v := &c.versions[i]
			at, y := float64(v.created.UnixMilli())/1000, v.measure(measure)
			is := slices.ContainsFunc(moves, func(m modeltopic.Move) bool { return m.Alias == alias && m.Version == v.number })
			if k := len(s.X); is && !math.IsNaN(y) && (k == 0 || at > s.X[k-1]) {
				s.X, s.Y = append(s.X, at), append(s.Y, eval.Number(y))
			}
		}
		if len(s.X) > 0 {
			list = append(list, s)
		}
	}
	return list
}

// Pair compares two versions.
type Pair struct {
	Numbers []uint64 // to choose from, the newest first
	A, B    uint64
	Table   chart.Table
}

// Compare returns the measures of two versions side by side: of a and b, or of the
// newest two where they are not known. It is nil while there are fewer than two.
func (c *Course) Compare(a, b uint64) *Pair {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.versions)
	if n < 2 {
		return nil
	}
	p := &Pair{}
	for i := range c.versions {
		p.Numbers = append(p.Numbers, c.versions[n-1-i].number)
	}
	find := func(number uint64, otherwise int) *version {
		if i := slices.IndexFunc(c.versions, func(v version) bool { return v.number == number }); i >= 0 {
			return &c.versions[i]
		}
		return &c.versions[otherwise]
	}
	va, vb := find(a, n-2), find(b, n-1)
	p.A, p.B = va.number, vb.number
	t := chart.Table{
		Title: fmt.Sprintf("Version %d and version %d", p.A, p.B), Head: []string{"measure", fmt.Sprint(p.A), fmt.Sprint(p.B), "difference"},
		Note: "As measured when they were published, each on the examples before it.",
	}
	row := func(name string, x, y float64) {
		if math.IsNaN(x) && math.IsNaN(y) {
			return
		}
		t.Rows = append(t.Rows, []string{name, number(x), number(y), signed(y - x)})
	}
	row("examples learned from", float64(va.examples), float64(vb.examples))
	row("bytes", float64(va.bytes), float64(vb.bytes))
	names := make([]string, 0, len(vb.measures))
	for _, m := range slices.Concat(vb.measures, va.measures) {
		if !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	rank := func(name string) int { // those over the window say most
		switch {
		case strings.HasSuffix(name, "_window"):
			return 0
		case strings.HasPrefix(name, "prequential_"):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	for _, name := range names {
		row(measureName(name), va.measure(name), vb.measure(name))
	}
	p.Table = t
	return p
}

// measureName writes the name of a measure for people.
func measureName(name string) string {
	name, prequential := strings.CutPrefix(name, "prequential_")
	name, window := strings.CutSuffix(name, "_window")
	name = clip(strings.ReplaceAll(name, "_", " "), longest)
	switch {
	case window:
		return name + ", window"
	case prequential && name != "examples":
		return name + ", all"
	case prequential:
		return "examples scored"
	}
	return name
}
