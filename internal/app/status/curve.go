package status

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/streamsvm/streamsvm/internal/eval"
)

// curve is a plot of prequential accuracy, or error, against examples, in the
// units of the page's SVG.
type curve struct {
	Width, Height       int
	Left, Right, Bottom int
	XTicks, YTicks      []tick
	All, Window         string // as the points of a polyline
}

type tick struct {
	At     float64
	Label  string
	Anchor string // of the text, for the horizontal axis
}

// newCurve returns nil where there is nothing to draw. Values of a regression
// are errors, those of a classification shares of 1.
func newCurve(points []eval.Point, regression bool) *curve {
	if len(points) == 0 {
		return nil
	}
	c := &curve{Width: 1000, Height: 260, Left: 60, Right: 990, Bottom: 230}
	const top = 24.0
	lo, hi := math.Inf(1), math.Inf(-1)
	// The first points swing wildly and would flatten the rest.
	for _, p := range points[min(len(points)/20, len(points)-1):] {
		for _, v := range []float64{p.All, p.Window} {
			if !math.IsNaN(v) {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	if lo > hi {
		return nil
	}
	step := tickStep((hi - lo) / 4)
	lo, hi = math.Floor(lo/step)*step, math.Ceil(hi/step)*step
	if !regression {
		hi = min(hi, 1)
	}
	if hi <= lo {
		step = 0.01
		lo, hi = lo-step, lo
	}
	last := float64(points[len(points)-1].Examples)
	x := func(n uint64) float64 { return float64(c.Left) + float64(c.Right-c.Left)*float64(n)/last }
	y := func(v float64) float64 {
		return float64(c.Bottom) - (float64(c.Bottom)-top)*(min(max(v, lo), hi)-lo)/(hi-lo)
	}
	for k := 0; ; k++ {
		v := lo + float64(k)*step
		if v > hi+step/1e6 {
			break
		}
		label := strconv.FormatFloat(v, 'g', 4, 64)
		if !regression {
			label = strconv.FormatFloat(100*v, 'g', 5, 64) + " %"
		}
		c.YTicks = append(c.YTicks, tick{At: y(v), Label: label})
	}
	for k := 0; k <= 4; k++ {
		n := uint64(last) * uint64(k) / 4
		c.XTicks = append(c.XTicks, tick{x(n), count(n), [...]string{"start", "middle", "middle", "middle", "end"}[k]})
	}
	var all, window strings.Builder
	for _, p := range points {
		for _, l := range []struct {
			b *strings.Builder
			v float64
		}{{&all, p.All}, {&window, p.Window}} {
			if !math.IsNaN(l.v) {
				fmt.Fprintf(l.b, "%.1f,%.1f ", x(p.Examples), y(l.v))
			}
		}
	}
	c.All, c.Window = all.String(), window.String()
	return c
}

// tickStep returns the smallest of 1, 2, 5 times a power of ten that is not
// below v.
func tickStep(v float64) float64 {
	if !(v > 1e-6) {
		return 1e-6
	}
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*p >= v*(1-1e-9) {
			return m * p
		}
	}
	return 10 * p
}
