package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"github.com/streamsvm/streamsvm/internal/app/chart"
	"github.com/streamsvm/streamsvm/internal/app/report"
	"github.com/streamsvm/streamsvm/internal/eval"
)

// median returns the medians over the seeds of passes and seconds to a gap;
// NaN if fewer than half of the runs reach it.
func (r *result) median(level float64) (passes, seconds float64) {
	var p, s []float64
	for _, run := range r.runs {
		a, b := run.reach(level)
		if math.IsNaN(a) {
			a, b = math.Inf(1), math.Inf(1)
		}
		p, s = append(p, a), append(s, b)
	}
	passes, seconds = half(p), half(s)
	if math.IsInf(passes, 1) {
		return math.NaN(), math.NaN()
	}
	return passes, seconds
}

// half returns the median of values, which it sorts.
func half(values []float64) float64 {
	slices.Sort(values)
	return stat.Quantile(0.5, stat.Empirical, values, nil)
}

// table writes the results of one problem.
func (b *bench) table(t *table, problem string, o *optimum, all []result, seconds, gap float64) {
	w := &b.text
	fmt.Fprintf(w, "### %s, %s\n\n", t.name, problem)
	fmt.Fprintf(w, "%d rows, %d features, F* = %.10g, %d of the coordinates of x* not 0.\n\n", o.p.Len(), o.p.Dim(), o.f, o.support)
	fmt.Fprintln(w, "| method | step | passes to 1e-4 | 1e-8 | 1e-12 | seconds to 1e-4 | 1e-8 | 1e-12 | gap at the end |")
	fmt.Fprintln(w, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
	for _, r := range all {
		var p, s []string
		for _, l := range levels {
			a, c := r.median(l)
			p, s = append(p, dash(a, "%.1f")), append(s, dash(c, "%.3f"))
		}
		var last []float64
		for _, run := range r.runs {
			last = append(last, run.last())
		}
		fmt.Fprintf(w, "| %s | %g | %s | %s | %.0e |\n", r.name, r.step, strings.Join(p, " | "), strings.Join(s, " | "), half(last))
	}
	if !math.IsNaN(seconds) {
		fmt.Fprintf(w, "| normal equations | | | | | | | %.3f | %.0e |\n", seconds, gap)
	}
	fmt.Fprintln(w)
}

func dash(v float64, format string) string {
	if math.IsNaN(v) {
		return "–"
	}
	return fmt.Sprintf(format, v)
}

// plot draws the first seed's curves.
func (b *bench) plot(t *table, problem string, all []result) {
	c := chart.Chart{
		Title: fmt.Sprintf("%s, %s", t.name, problem), X: chart.Axis{Label: "passes over the data"},
		Y: chart.Axis{Label: "F − F*", Log: true, Min: 1e-13, Max: 1},
	}
	for _, r := range all {
		if strings.HasPrefix(r.name, "saga-sd, ") || strings.Contains(r.name, "variant") || strings.Contains(r.name, "start") {
			continue // as many lines as there are colours
		}
		run := r.runs[0]
		y := make([]eval.Number, len(run.gap))
		for k, g := range run.gap {
			y[k] = eval.Number(max(g, 1e-30))
		}
		c.Series = append(c.Series, chart.Series{Name: r.name, X: run.passes, Y: y})
	}
	b.charts = append(b.charts, c)
}

// write writes what there is so far.
func (b *bench) write() error {
	for name, text := range map[string]string{
		"results.md": b.text.String(), "runs.csv": b.runs.String(), "steps.csv": b.steps.String(), "curves.csv": b.curves.String(),
	} {
		if err := os.WriteFile(filepath.Join(b.out, name), []byte(text), 0o666); err != nil {
			return err
		}
	}
	_, err := report.Write(b.out, &report.Report{Title: "Variance-reduced methods", Charts: b.charts})
	return err
}
