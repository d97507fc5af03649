package page

import (
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"strconv"

	"github.com/streamsvm/streamsvm/internal/eval"
)

// Chart is a line chart. uPlot, which is embedded in the program, draws it in the
// browser. Without JavaScript its numbers can be read in a table.
type Chart struct {
	Title   string   `json:"title"`
	Caption string   `json:"-"` // below the chart
	X       Axis     `json:"x"`
	Y       Axis     `json:"y"`
	Series  []Series `json:"series"`
	Marks   []Marks  `json:"marks,omitempty"`
}

// Marks are places on the horizontal axis where something happened, for example
// where the stream changed.
type Marks struct {
	Name string    `json:"name"` // in the legend
	At   []float64 `json:"at"`
	Tick bool      `json:"tick,omitempty"` // a small triangle at the foot instead of a line over the whole height
}

// Axis is one axis of a Chart. The vertical axis ignores the first twentieth of
// the points, which would flatten the rest.
type Axis struct {
	Label   string `json:"label"`
	Percent bool   `json:"percent,omitempty"` // 1 is 100 %
	Zero    bool   `json:"zero,omitempty"`    // starts at 0
}

// Look is how a series is drawn.
type Look string

const (
	Strong Look = ""       // the main line
	Faint  Look = "faint"  // the noisy line behind the next one, in its colour
	Dashed Look = "dashed" // a reference
	Dotted Look = "dotted" // another reference
)

// Series is one line. Points whose Y is not finite are left out.
type Series struct {
	Name string        `json:"name"`
	X    []float64     `json:"x"` // increasing
	Y    []eval.Number `json:"y"` // as many
	Look Look          `json:"look,omitempty"`
}

// Add appends a point.
func (s *Series) Add(x, y float64) { s.X, s.Y = append(s.X, x), append(s.Y, eval.Number(y)) }

// MarshalJSON implements json.Marshaler. It rounds Y to 7 digits, which is more
// than a chart can show.
func (s Series) MarshalJSON() ([]byte, error) {
	type plain Series
	short := plain(s)
	short.Y = make([]eval.Number, len(s.Y))
	for i, v := range s.Y {
		f, _ := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', 7, 64), 64)
		short.Y[i] = eval.Number(f)
	}
	return json.Marshal(short)
}

// Prequential returns an empty chart of prequential accuracy or, of a regression,
// of the mean absolute error; after is added to its title.
func Prequential(regress bool, after string) Chart {
	c := Chart{
		Title: "Prequential accuracy" + after, X: Axis{Label: "examples"}, Y: Axis{Label: "accuracy", Percent: true},
		Caption: "The model predicts each example before it learns from it, so every prediction is about an unseen example.",
	}
	if regress {
		c.Title, c.Y = "Prequential mean absolute error"+after, Axis{Label: "mean absolute error"}
	}
	return c
}

// numbers returns the chart as a table: about twenty points of the longest
// series, newest first, with the latest value of every series at each.
func (c *Chart) numbers() (head []string, rows [][]string) {
	var at []float64
	head = []string{c.X.Label}
	for _, s := range c.Series {
		head = append(head, s.Name)
		if len(s.X) > len(at) {
			at = s.X
		}
	}
	step := (len(at) + 19) / 20
	for i := len(at) - 1; i >= 0; i -= step {
		row := []string{c.X.text(at[i])}
		for _, s := range c.Series {
			v := math.NaN()
			if k := sort.Search(len(s.X), func(k int) bool { return s.X[k] > at[i] }); k > 0 {
				v = float64(s.Y[k-1])
			}
			row = append(row, c.Y.text(v))
		}
		rows = append(rows, row)
	}
	return head, rows
}

func (a *Axis) text(v float64) string {
	if a.Percent && !math.IsNaN(v) && !math.IsInf(v, 0) {
		return eval.Percent(v)
	}
	return Number(v)
}

// Number writes v for people, to five digits unless it is an integer.
func Number(v float64) string {
	switch {
	case math.IsNaN(v), math.IsInf(v, 0):
		return "–"
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 5, 64)
}

// Count writes "1 record" or "2 records"; spaces at which no line breaks
// separate groups of three digits. Without a noun it writes the number alone.
func Count[N int | int64 | uint64](n N, noun string) string {
	s := strconv.FormatUint(uint64(max(n, 0)), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u00a0" + s[i:]
	}
	if noun == "" {
		return s
	}
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%s %s", s, noun)
}

// Clip shortens text from outside to n characters.
func Clip(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
}
