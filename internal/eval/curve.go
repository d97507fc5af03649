package eval

import (
	"fmt"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// Point is one point of a Curve.
type Point struct {
	// Examples is the number of examples scored.
	Examples uint64
	// All is the accuracy over all of them, Window the accuracy over the window;
	// for regression, the mean absolute errors.
	All, Window float64
}

// maxPoints bounds the number of points: more than a plot has pixels.
const maxPoints = 1024

// Curve records the history of the prequential accuracy at equal distances. When it
// is full, every other point is dropped and the distance doubled.
type Curve struct {
	stride uint64
	points []Point
}

// NewCurve returns an empty Curve.
func NewCurve() *Curve { return &Curve{stride: 1} }

// Add is called after each example that p has scored.
func (c *Curve) Add(p *Prequential) {
	if p.n&(c.stride-1) != 0 { // stride is a power of two
		return
	}
	if len(c.points) == maxPoints {
		// Point k is at (k+1)·stride.
		for k := range maxPoints / 2 {
			c.points[k] = c.points[2*k+1]
		}
		c.points = c.points[:maxPoints/2]
		c.stride *= 2
		if p.n&(c.stride-1) != 0 {
			return
		}
	}
	c.points = append(c.points, point(p))
}

func point(p *Prequential) Point {
	all, window := p.Score()
	return Point{p.n, all, window}
}

// Points returns the recorded points, and the current one of p at the end. p may be
// nil.
func (c *Curve) Points(p *Prequential) []Point {
	points := append([]Point(nil), c.points...)
	if p != nil && p.n > 0 && (len(points) == 0 || points[len(points)-1].Examples < p.n) {
		points = append(points, point(p))
	}
	return points
}

// Fields describes the state.
func (c *Curve) Fields(f *state.Fields) {
	var all, window []float64
	for _, p := range c.points {
		all, window = append(all, p.All), append(window, p.Window)
	}
	f.Uint64("stride", &c.stride)
	f.Float64s("all", &all)
	f.Float64s("window", &window)
	if !f.Decoding() || f.Err() != nil {
		return
	}
	if c.stride == 0 || c.stride&(c.stride-1) != 0 || len(all) != len(window) || len(all) > maxPoints {
		f.Fail("stride", fmt.Errorf("stride %d with %d and %d points", c.stride, len(all), len(window)))
		return
	}
	c.points = make([]Point, len(all))
	for k := range all {
		c.points[k] = Point{uint64(k+1) * c.stride, all[k], window[k]}
	}
}
