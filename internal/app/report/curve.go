package report

import (
	"math"

	"github.com/streamsvm/streamsvm/internal/eval"
)

// Curve returns the plot of a run's prequential measure.
func Curve(p *eval.Prequential, c *eval.Curve, window int) Plot {
	majority, regress := math.NaN(), p.Summary().MAE != nil
	if neg, pos := p.Classes(); !regress && neg+pos > 0 {
		majority = float64(max(neg, pos)) / float64(neg+pos)
	}
	return Prequential(c.Points(p), regress, window, majority)
}
