package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/promote"
)

// comparison ranks candidates by their predictions of the same labelled examples: learners
// by replay --compare, models by model compare.
type comparison struct {
	list    []*candidate
	regress bool
	window  int
}

// candidate holds the measures of a learner or a model.
type candidate struct {
	name     string
	unscored uint64    // labelled examples before the first one that was scored
	losses   []float32 // on each example scored: wrong or not, or the absolute error
	summary  eval.Summary
	points   []eval.Point
	// published measures what subscribers would have got; nil if that is not measured.
	published *promote.PublishedReport
	seconds   float64
}

// candidateResult is the JSON form of a candidate.
type candidateResult struct {
	Name        string       `json:"name"`
	Examples    int          `json:"examples"` // scored
	Seconds     eval.Number  `json:"seconds"`
	Common      eval.Number  `json:"common"` // accuracy, or mean absolute error, on the examples that all have scored
	Prequential eval.Summary `json:"prequential"`
	// Behind is a 95 % interval of the loss minus the loss of the best candidate, on the
	// examples that all have scored; null for the best itself.
	Behind *[2]float64 `json:"behind"`
	// AsPublished is there with --publish-every.
	AsPublished *promote.PublishedReport `json:"as_published,omitempty"`
}

// loss is 1 for a wrong decision, or class, and the absolute error of a regression.
func loss(decision, label float64, regress, classes bool) float32 {
	switch {
	case regress:
		return float32(math.Abs(decision - label))
	case classes && decision != label, !classes && (decision >= 0) != (label > 0):
		return 1
	}
	return 0
}

// start returns how many labelled examples come before the first one that all have
// scored.
func (c *comparison) start() (n uint64) {
	for _, v := range c.list {
		n = max(n, v.unscored)
	}
	return n
}

// common returns the losses on the examples that all have scored.
func (c *comparison) common(v *candidate) []float32 {
	return v.losses[min(c.start()-v.unscored, uint64(len(v.losses))):]
}

// loss returns the mean of the losses that common returns; NaN without any.
func (c *comparison) loss(v *candidate) float64 {
	sum, losses := 0.0, c.common(v)
	for _, l := range losses {
		sum += float64(l)
	}
	return sum / float64(len(losses))
}

// best returns the candidate with the least loss, nil without any.
func (c *comparison) best() (first *candidate) {
	for _, v := range c.list {
		if l := c.loss(v); first == nil && l == l || first != nil && l < c.loss(first) {
			first = v
		}
	}
	return first
}

// results returns the JSON form.
func (c *comparison) results() []candidateResult {
	best, list := c.best(), []candidateResult{}
	for _, v := range c.list {
		r := candidateResult{Name: v.name, Examples: len(v.losses), Seconds: eval.Number(v.seconds), Common: eval.Number(c.loss(v)), Prequential: v.summary, AsPublished: v.published}
		if !c.regress {
			r.Common = 1 - r.Common
		}
		if v != best && len(c.common(v)) == len(c.common(best)) {
			r.Behind = compare.PairedInterval(c.common(v), c.common(best))
		}
		list = append(list, r)
	}
	return list
}

// table is what people see.
func (c *comparison) table() (head []string, rows [][]string) {
	after, last, best := fmt.Sprintf("after %d", c.start()), fmt.Sprintf("last %d", c.window), c.best()
	head = []string{"", "accuracy", "of", after, last, "95 % interval", "behind the best", "kappa-temporal", "log loss", "seconds"}
	number := eval.Percent[eval.Number]
	if c.regress {
		head = []string{"", "mean abs. error", "of", after, last, "behind the best", "RMSE", "R2", "seconds"}
		number = decimal
	}
	if len(c.list) > 0 && c.list[0].published != nil {
		head = append(head, "as published")
		if !c.regress {
			head = append(head, "its AUC", "its log loss")
		}
	}
	for i, r := range c.results() {
		s, behind := &r.Prequential, "-"
		if b := r.Behind; b != nil {
			behind = number(eval.Number(b[0])) + " to " + number(eval.Number(b[1]))
		} else if c.list[i] == best {
			behind = "best"
		}
		row := []string{r.Name, "", fmt.Sprint(r.Examples), number(r.Common)}
		if c.regress {
			row[1] = decimal(*s.MAE)
			row = append(row, decimal(*s.Window.MAE), behind, decimal(*s.RMSE), decimal(*s.R2))
		} else {
			interval := "-"
			if i := s.Interval; i != nil {
				interval = eval.Percent(i[0]) + " to " + eval.Percent(i[1])
			}
			row[1] = eval.Percent(s.Accuracy)
			row = append(row, eval.Percent(s.Window.Accuracy), interval, behind, decimal(s.KappaT), decimal(s.LogLoss))
		}
		row = append(row, fmt.Sprintf("%.2f", r.Seconds))
		if p := r.AsPublished; p != nil && c.regress {
			row = append(row, decimal(*p.MAE))
		} else if p != nil {
			row = append(row, eval.Percent(p.Accuracy), decimal(p.AUC), decimal(p.LogLoss))
		}
		rows = append(rows, row)
	}
	return head, rows
}

// print prints the table, and the baselines of a classification.
func (c *comparison) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head, rows := c.table()
	for _, row := range append([][]string{head}, rows...) {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	err := tw.Flush()
	if err == nil && !c.regress {
		_, err = fmt.Fprintf(w, "baselines: %s\n", c.list[0].summary.Baseline)
	}
	return err
}
