// Package chart puts line charts and tables into pages of HTML. Charts are drawn
// in the browser by uPlot, which is part of the program; without JavaScript their
// numbers can be read in a table.
package chart

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/internal/eval"
)

// Chart is a line chart.
type Chart struct {
	Title   string   `json:"title"`
	Caption string   `json:"-"` // below the chart
	X       Axis     `json:"x"`
	Y       Axis     `json:"y"`
	Series  []Series `json:"series"`
	Marks   []Marks  `json:"marks,omitempty"`
}

// Marks are places of the horizontal axis where something has happened, e.g.
// where a stream has changed.
type Marks struct {
	Name string    `json:"name"` // in the legend
	At   []float64 `json:"at"`
	Tick bool      `json:"tick,omitempty"` // small, at the foot; else lines over the whole height
}

// Axis is one axis of a Chart. Where Min < Max, they limit a vertical axis;
// otherwise it shows all but the first twentieth of a course.
type Axis struct {
	Label   string  `json:"label,omitempty"`
	Log     bool    `json:"log,omitempty"`
	Percent bool    `json:"percent,omitempty"` // 1 is 100 %
	Time    bool    `json:"time,omitempty"`    // seconds since 1970
	Zero    bool    `json:"zero,omitempty"`    // begins at 0
	Min     float64 `json:"min,omitempty"`
	Max     float64 `json:"max,omitempty"`
}

// Look is the way in which a series is drawn.
type Look string

const (
	Strong Look = ""       // the main line
	Faint  Look = "faint"  // the noisy line behind the next one, in its colour
	Dashed Look = "dashed" // a reference
	Dotted Look = "dotted" // another one
	Points Look = "points" // the main line, with a point at each value
	Dots   Look = "dots"   // large points without a line
)

// Series is one line. Points of which Y is not finite are left out.
type Series struct {
	Name string        `json:"name"`
	X    []float64     `json:"x"` // increasing
	Y    []eval.Number `json:"y"` // as many
	Look Look          `json:"look,omitempty"`
}

// MarshalJSON implements json.Marshaler. Ordinates have 7 digits, which is more
// than can be seen.
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

// Prequential returns the chart of a curve: accuracy over all examples and over
// the window, or the mean absolute error of a regression.
func Prequential(points []eval.Point, regress bool, window int) Chart {
	n := len(points)
	x, all, recent := make([]float64, n), make([]eval.Number, n), make([]eval.Number, n)
	for i, p := range points {
		x[i], all[i], recent[i] = float64(p.Examples), eval.Number(p.All), eval.Number(p.Window)
	}
	c := Chart{
		Title: "Prequential accuracy", X: Axis{Label: "examples"}, Y: Axis{Label: "accuracy", Percent: true},
		Caption: "Each example is predicted first and learned from afterwards, so every prediction is of an example not seen before.",
		Series: []Series{
			{Name: fmt.Sprintf("last %d examples", window), X: x, Y: recent, Look: Faint},
			{Name: "all examples so far", X: x, Y: all},
		},
	}
	if regress {
		c.Title, c.Y = "Prequential mean absolute error", Axis{Label: "mean absolute error"}
	}
	return c
}

// Head is the first row of the table of numbers.
func (c *Chart) Head() []string {
	head := []string{cmp.Or(c.X.Label, "time")}
	for _, s := range c.Series {
		head = append(head, s.Name)
	}
	return head
}

// Rows are the others: about twenty points of the longest series, and the
// latest value of each at them.
func (c *Chart) Rows() (rows [][]string) {
	var at []float64
	for _, s := range c.Series {
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
	return rows
}

func (a *Axis) text(v float64) string {
	switch {
	case math.IsNaN(v), math.IsInf(v, 0):
		return "–"
	case a.Time:
		return time.Unix(int64(v), 0).Format(time.TimeOnly)
	case a.Percent:
		return strconv.FormatFloat(100*v, 'f', 2, 64) + " %"
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 5, 64)
}

//go:embed chart.js style.css uplot
var files embed.FS

func read(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // it is embedded
		}
		b.Write(text)
	}
	return b.String()
}

var (
	styles = Markup(read("uplot/uPlot.min.css", "style.css"))
	script = read("uplot/uPlot.iife.min.js", "chart.js")
	digest = sha256.Sum256([]byte(script))
)

// Digest is the script's hash in the form of a Content-Security-Policy.
func Digest() string { return "sha256-" + base64.StdEncoding.EncodeToString(digest[:]) }

// Script serves the script.
func Script(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("ETag", strconv.Quote(Digest()))
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(script))
}
