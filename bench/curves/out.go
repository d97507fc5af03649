package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/streamsvm/streamsvm/internal/app/chart"
	"github.com/streamsvm/streamsvm/internal/app/report"
	"github.com/streamsvm/streamsvm/internal/eval"
)

// by tells what a curve is drawn against.
type by struct {
	name, label string
	of          func(point) float64
}

var costs = []by{
	{"kernel_evaluations", "kernel evaluations", func(p point) float64 { return p.evals }},
	{"seconds", "processor seconds", func(p point) float64 { return p.seconds }},
}

// at returns the error of the last measurement that cost no more than most, or
// NaN.
func (b by) at(points []point, most float64) float64 {
	err := math.NaN()
	for _, p := range points {
		if b.of(p) <= most {
			err = p.err
		}
	}
	return err
}

// mean is the course of a learner over its runs.
type mean struct {
	label            string
	x, y, low, high  []float64
	runs             int
	bestErr, bestAt  float64 // least mean error and where it was reached first
	finalErr, finalX float64
}

// gridSteps is the number of costs per factor of ten at which means are taken.
const gridSteps = 20

// means returns the mean error of each learner at costs that all of its runs
// have reached.
func (b by) means(all []curve) (out []mean) {
	var labels []string
	for _, c := range all {
		if !slices.Contains(labels, c.label) {
			labels = append(labels, c.label)
		}
	}
	for _, label := range labels {
		m := mean{label: label, bestErr: math.Inf(1)}
		lo, hi := 0.0, math.Inf(1)
		var runs [][]point
		for _, c := range all {
			if c.label != label || len(c.points) == 0 {
				continue
			}
			runs = append(runs, c.points)
			lo = max(lo, b.of(c.points[0]))
			hi = min(hi, b.of(c.points[len(c.points)-1]))
		}
		m.runs = len(runs)
		if m.runs == 0 || !(hi > 0) {
			continue
		}
		for k := math.Floor(gridSteps * math.Log10(max(lo, 1e-3))); ; k++ {
			x := math.Pow(10, k/gridSteps)
			if x < lo {
				continue
			}
			last := x >= hi
			x = min(x, hi)
			sum, least, most := 0.0, math.Inf(1), math.Inf(-1)
			for _, points := range runs {
				e := b.at(points, x)
				sum, least, most = sum+e, min(least, e), max(most, e)
			}
			y := sum / float64(m.runs)
			m.x, m.y = append(m.x, x), append(m.y, y)
			m.low, m.high = append(m.low, least), append(m.high, most)
			if y < m.bestErr {
				m.bestErr, m.bestAt = y, x
			}
			if last {
				m.finalErr, m.finalX = y, x
				break
			}
		}
		out = append(out, m)
	}
	return out
}

func number(x float64) string {
	if x-x != 0 {
		return ""
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

var head = []string{"learner", "run", "iterations", "kernel_evaluations", "seconds", "error", "objective"}

// load reads a curves.csv.
func load(path string) ([]curve, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(rows) == 0 || !slices.Equal(rows[0], head) {
		return nil, fmt.Errorf("%s is no curves.csv", path)
	}
	var all []curve
	for _, row := range rows[1:] {
		var n [6]float64
		for i, text := range row[1:] {
			if n[i], err = strconv.ParseFloat(text, 64); err != nil && text != "" {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			if text == "" {
				n[i] = math.NaN()
			}
		}
		if k := len(all) - 1; k < 0 || all[k].label != row[0] || all[k].run != int(n[0]) {
			all = append(all, curve{label: row[0], run: int(n[0])})
		}
		last := &all[len(all)-1]
		last.points = append(last.points, point{uint64(n[1]), n[2], n[3], n[4], n[5]})
	}
	return all, nil
}

// write writes the tables and plots.
func (c *config) write(all []curve, ref *reference) error {
	if err := os.MkdirAll(c.out, 0o777); err != nil {
		return err
	}
	rows := [][]string{head}
	for _, cu := range all {
		for _, p := range cu.points {
			rows = append(rows, []string{
				cu.label, strconv.Itoa(cu.run), strconv.FormatUint(p.iterations, 10),
				number(p.evals), number(p.seconds), number(p.err), number(p.objective),
			})
		}
	}
	if err := c.table("curves.csv", rows); err != nil {
		return err
	}
	page := report.Report{Title: c.title}
	rows = [][]string{{"learner", "against", "cost", "error", "least", "most"}}
	for _, b := range costs {
		means := b.means(all)
		if len(means) == 0 {
			continue
		}
		for _, m := range means {
			for i, x := range m.x {
				rows = append(rows, []string{m.label, b.name, number(x), number(m.y[i]), number(m.low[i]), number(m.high[i])})
			}
		}
		page.Charts = append(page.Charts, c.plot(b, means, ref))
	}
	if _, err := report.Write(c.out, &page); err != nil {
		return err
	}
	return c.table("mean.csv", rows)
}

func (c *config) table(name string, rows [][]string) error {
	f, err := os.Create(filepath.Join(c.out, name))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := csv.NewWriter(f).WriteAll(rows); err != nil {
		return err
	}
	return f.Close()
}

// span is the ratio of the largest cost that is drawn to the least.
const span = 3000

// plot draws errors against what they cost. The beginning of the curves and
// errors above twice the best, or two points above it, are cut off.
func (c *config) plot(b by, means []mean, ref *reference) chart.Chart {
	p := chart.Chart{Title: c.title + ": test error", X: chart.Axis{Label: b.label, Log: true}, Y: chart.Axis{Label: "error", Percent: true}}
	best, x1 := math.Inf(1), 0.0
	for _, m := range means {
		best, x1 = min(best, m.bestErr), max(x1, m.finalX)
	}
	x0 := x1 / span
	for _, m := range means {
		from, _ := slices.BinarySearch(m.x, x0)
		s := chart.Series{Name: m.label, X: m.x[from:]}
		for _, y := range m.y[from:] {
			s.Y = append(s.Y, eval.Number(y))
		}
		p.Series = append(p.Series, s)
	}
	if ref != nil {
		best = min(best, ref.err)
		p.Series = append(p.Series, chart.Series{Name: "svm-train", X: []float64{x0, x1}, Y: []eval.Number{eval.Number(ref.err), eval.Number(ref.err)}, Look: chart.Dashed})
		if b.name == "seconds" {
			m := chart.Marks{Name: "1/30, 1/10, 1/4 of its time"}
			for _, q := range parts {
				m.At = append(m.At, ref.seconds/q)
			}
			p.Marks = []chart.Marks{m}
		}
	}
	p.Y.Min, p.Y.Max = 0.9*best, max(2*best, best+0.02)
	return p
}

// parts are the shares of svm-train's time at which learners are compared.
var parts = []float64{30, 10, 4, 1}

// print writes a summary.
func (c *config) print(out io.Writer, all []curve, ref *reference) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	for _, b := range costs {
		means := b.means(all)
		if len(means) == 0 {
			continue
		}
		// Costs to compare at: powers of the square root of ten.
		top := 0.0
		for _, m := range means {
			top = max(top, m.finalX)
		}
		var at []float64
		for k := math.Floor(2 * math.Log10(top)); len(at) < 6; k-- {
			at = append(at, math.Pow(10, k/2))
		}
		slices.Reverse(at)
		fmt.Fprintf(w, "error %% at %s\truns", b.name)
		for _, x := range at {
			fmt.Fprintf(w, "\t%.2g", x)
		}
		fmt.Fprint(w, "\tbest\tat\tlast\tat\n")
		for _, m := range means {
			fmt.Fprintf(w, "%s\t%d", m.label, m.runs)
			for _, x := range at {
				fmt.Fprintf(w, "\t%s", percent(m.upTo(x)))
			}
			fmt.Fprintf(w, "\t%s\t%.2g\t%s\t%.2g\n", percent(m.bestErr), m.bestAt, percent(m.finalErr), m.finalX)
		}
		fmt.Fprintln(w)
	}
	if ref == nil {
		return
	}
	fmt.Fprint(w, "error % at a share of svm-train's seconds")
	for _, q := range parts {
		fmt.Fprintf(w, "\t1/%g", q)
	}
	fmt.Fprintln(w)
	for _, m := range costs[1].means(all) {
		fmt.Fprint(w, m.label)
		for _, q := range parts {
			// A run that has ended stays what it is.
			sum, n := 0.0, 0.0
			for _, c := range all {
				if c.label == m.label {
					sum, n = sum+costs[1].at(c.points, ref.seconds/q), n+1
				}
			}
			fmt.Fprintf(w, "\t%s", percent(sum/n))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "svm-train, %.1f s\t\t\t\t%s\n", ref.seconds, percent(ref.err))
}

// upTo returns the mean error at a cost.
func (m *mean) upTo(x float64) float64 {
	e := math.NaN()
	for i, v := range m.x {
		if v <= x*(1+1e-9) {
			e = m.y[i]
		}
	}
	return e
}

func percent(e float64) string {
	if e-e != 0 {
		return "-"
	}
	return strconv.FormatFloat(100*e, 'f', 2, 64)
}
