package chart

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/streamsvm/streamsvm/internal/eval"
)

// Reliability returns the reliability diagram of a summary; nil where there were
// no probabilities.
func Reliability(s *eval.Summary) *Chart {
	if len(s.Reliability) == 0 {
		return nil
	}
	line := func(name string, rows []eval.ReliabilityBin, look Look) Series {
		l := Series{Name: name, Look: look}
		for _, r := range rows {
			l.X, l.Y = append(l.X, float64(r.Probability)), append(l.Y, r.Share)
		}
		return l
	}
	number := func(v eval.Number) string { return strconv.FormatFloat(float64(v), 'f', 4, 64) }
	all := line("all examples so far", s.Reliability, Strong)
	// It has points where that has some, for the table of numbers.
	diagonal := Series{Name: "as predicted", X: slices.Concat([]float64{0}, all.X, []float64{1}), Look: Dashed}
	for _, x := range diagonal.X {
		diagonal.Y = append(diagonal.Y, eval.Number(x))
	}
	share := "positive labels"
	if s.Classes != nil { // of the class predicted
		share = "right predictions"
	}
	return &Chart{
		Title: "Reliability of probabilities", X: Axis{Label: "probability, mean of a group", Percent: true},
		Y: Axis{Label: share, Percent: true, Min: 0, Max: 1},
		Caption: fmt.Sprintf("Examples in up to 15 groups of equal size, by the probability that was predicted. Right probabilities are on the diagonal. "+
			"Mean distance from it: %s over all examples, %s by chance alone; %s and %s over the last %d.",
			number(s.ECE), number(s.ECENoise), number(s.Window.ECE), number(s.Window.ECENoise), s.Window.Examples),
		Series: []Series{
			line(fmt.Sprintf("last %d examples", s.Window.Examples), s.Window.Reliability, Faint),
			all, diagonal,
		},
	}
}
