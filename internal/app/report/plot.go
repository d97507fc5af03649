package report

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

const (
	width  = 9 * vg.Inch
	height = 4.8 * vg.Inch
	dpi    = 150
)

// The palette of Okabe and Ito, which colour-blind readers can tell apart.
var palette = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x00, 0x00, 0x00, 0xff},
}

var (
	ink  = color.NRGBA{0x33, 0x33, 0x33, 0xff}
	grey = color.NRGBA{0x80, 0x80, 0x80, 0xff}
	rule = color.NRGBA{0xe6, 0xe6, 0xe6, 0xff}
)

func faint(c color.NRGBA) color.NRGBA {
	mix := func(v uint8) uint8 { return uint8((2*int(v) + 3*255) / 5) }
	return color.NRGBA{mix(c.R), mix(c.G), mix(c.B), 0xff}
}

// finite returns the points of s that can be drawn.
func (s *Series) finite() (xys plotter.XYs, err error) {
	if len(s.X) != len(s.Y) {
		return nil, fmt.Errorf("series %q has %d abscissae and %d ordinates", s.Name, len(s.X), len(s.Y))
	}
	for i := range s.X {
		if v := s.X[i] + s.Y[i]; !math.IsNaN(v) && !math.IsInf(v, 0) {
			xys = append(xys, plotter.XY{X: s.X[i], Y: s.Y[i]})
		}
	}
	return xys, nil
}

// PNG draws the plot.
func (p *Plot) PNG() ([]byte, error) {
	pl := plot.New()
	pl.BackgroundColor = color.White
	style := func(t *text.Style, size vg.Length, bold bool) {
		t.Font = font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
		if bold {
			t.Font.Weight = 3 // WeightBold of golang.org/x/image/font
		}
		t.Color = ink
	}
	title, names := pl.Title.TextStyle, pl.Legend.TextStyle
	style(&title, 14, true)
	style(&names, 11, false)
	title.XAlign, title.YAlign = draw.XLeft, draw.YTop
	names.XAlign, names.YAlign = draw.XLeft, draw.YCenter
	for _, a := range []struct {
		axis  *plot.Axis
		label string
	}{{&pl.X, p.XLabel}, {&pl.Y, p.YLabel}} {
		a.axis.Label.Text, a.axis.Label.Padding = a.label, vg.Points(6)
		style(&a.axis.Label.TextStyle, 12, false)
		style(&a.axis.Tick.Label, 11, false)
		a.axis.LineStyle.Color, a.axis.Tick.LineStyle.Color = grey, grey
		a.axis.LineStyle.Width, a.axis.Tick.LineStyle.Width = vg.Points(0.75), vg.Points(0.75)
		a.axis.Tick.Length = vg.Points(4)
		a.axis.Tick.Marker = ticks{}
		a.axis.Padding = 0
	}

	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = rule, rule
	pl.Add(grid)

	var all []plotter.XYs
	colour := -1
	type entry struct {
		name string
		line *plotter.Line
	}
	var legend []entry
	for i := range p.Series {
		s := &p.Series[i]
		xys, err := s.finite()
		if err != nil {
			return nil, err
		}
		// A faint line has the colour of the strong one after it.
		if s.Look != Dashed && (i == 0 || p.Series[i-1].Look != Faint) {
			colour++
		}
		if len(xys) == 0 {
			continue
		}
		line, err := plotter.NewLine(xys)
		if err != nil {
			return nil, err
		}
		switch s.Look {
		case Strong:
			line.Color, line.Width = palette[colour%len(palette)], vg.Points(1.75)
		case Faint:
			line.Color, line.Width = faint(palette[colour%len(palette)]), vg.Points(1)
		case Dashed:
			line.Color, line.Width = grey, vg.Points(1)
			line.Dashes = []vg.Length{vg.Points(5), vg.Points(4)}
		}
		all = append(all, xys)
		pl.Add(line)
		legend = append(legend, entry{s.Name, line})
	}
	if len(all) == 0 {
		return nil, errors.New("there is nothing to draw")
	}
	pl.X.Min, pl.X.Max, pl.Y.Min, pl.Y.Max = p.limits(all)

	for i, x := range p.Marks {
		line, err := plotter.NewLine(plotter.XYs{{X: x, Y: pl.Y.Min}, {X: x, Y: pl.Y.Max}})
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = grey, vg.Points(0.75)
		line.Dashes = []vg.Length{vg.Points(1.5), vg.Points(2.5)}
		if x >= pl.X.Min && x <= pl.X.Max {
			pl.Add(line)
		}
		if i == 0 && p.MarkName != "" {
			legend = append(legend, entry{p.MarkName, line})
		}
	}
	canvas := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	const margin, row = 14, 18 // points
	c := draw.New(canvas)
	c.FillText(title, vg.Point{X: margin, Y: c.Max.Y - margin}, p.Title)
	at := vg.Point{X: margin, Y: c.Max.Y - margin - 32}
	for _, e := range legend {
		w := 30 + names.Width(e.name)
		if at.X > margin && at.X+w > c.Max.X-margin {
			at = vg.Point{X: margin, Y: at.Y - row}
		}
		c.StrokeLine2(e.line.LineStyle, at.X, at.Y, at.X+24, at.Y)
		c.FillText(names, vg.Point{X: at.X + 30, Y: at.Y + 1.5}, e.name)
		at.X += w + 18
	}
	// The last tick's label reaches beyond the axis on the right.
	pl.Draw(draw.Crop(c, margin, -26, margin-4, at.Y-row-c.Max.Y))
	var b bytes.Buffer
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(&b)
	return b.Bytes(), err
}

// limits returns the ranges of the axes.
func (p *Plot) limits(all []plotter.XYs) (x0, x1, y0, y1 float64) {
	x0, x1 = math.Inf(1), math.Inf(-1)
	for _, xys := range all {
		x0, x1 = min(x0, xys[0].X), max(x1, xys[len(xys)-1].X)
	}
	if x0 > 0 && x0 < x1/20 {
		x0 = 0
	}
	if x0 == x1 {
		x0, x1 = x0-1, x1+1
	}
	y0, y1 = p.YMin, p.YMax
	if y0 < y1 {
		return x0, x1, y0, y1
	}
	// The first few examples say little and would stretch the axis.
	y0, y1 = math.Inf(1), math.Inf(-1)
	for _, xys := range all {
		for i, pt := range xys {
			if pt.X >= x0+(x1-x0)/10 || i == len(xys)-1 {
				y0, y1 = min(y0, pt.Y), max(y1, pt.Y)
			}
		}
	}
	if y0 == y1 {
		pad := max(math.Abs(y0)/10, 1e-3)
		return x0, x1, y0 - pad, y1 + pad
	}
	// Widen to whole steps of the ticks, with some air at either end.
	step, air := tickStep(y0, y1), (y1-y0)/20
	return x0, x1, math.Floor((y0-air)/step) * step, math.Ceil((y1+air)/step) * step
}

// ticks places labels at whole multiples of 1, 2 or 5 times a power of ten.
type ticks struct{}

// tickStep returns the distance of about six ticks between lo and hi.
func tickStep(lo, hi float64) float64 {
	raw := (hi - lo) / 6
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= raw*0.999 {
			return m * power
		}
	}
	return 10 * power
}

// Ticks implements plot.Ticker.
func (ticks) Ticks(lo, hi float64) []plot.Tick {
	if !(hi > lo) || math.IsInf(hi-lo, 0) {
		return []plot.Tick{{Value: lo, Label: thousands(lo)}}
	}
	step := tickStep(lo, hi)
	decimals := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	var out []plot.Tick
	for k := math.Ceil(lo/step - 1e-9); k <= math.Floor(hi/step+1e-9) && len(out) < 20; k++ {
		v := k*step + 0 // no negative zero
		label := strconv.FormatFloat(v, 'f', decimals, 64)
		if decimals == 0 {
			label = thousands(v)
		}
		out = append(out, plot.Tick{Value: v, Label: label})
	}
	return out
}

// thousands writes a whole number as 12,345.
func thousands(v float64) string {
	s := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	var groups []string
	for len(s) > 3 {
		groups = append(groups, s[len(s)-3:])
		s = s[:len(s)-3]
	}
	groups = append(groups, s)
	slices.Reverse(groups)
	s = strings.Join(groups, ",")
	if v < 0 && s != "0" {
		s = "-" + s
	}
	return s
}
