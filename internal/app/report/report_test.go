package report

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/plotter"

	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/rng"
)

// drifting returns the curve of a learner that gets better and is thrown back
// twice.
func drifting(n int) (*eval.Prequential, []eval.Point) {
	r := rng.New(1, "drift")
	p, c := eval.New(false, 1000), eval.NewCurve()
	skill := 0.5
	for i := range n {
		if i == n*2/5 || i == n*7/10 {
			skill -= 0.2
		}
		skill += (0.94 - skill) / 1500
		y := 1.0
		if r.Float64() < 0.4 {
			y = -1
		}
		s := y
		if r.Float64() > skill {
			s = -y
		}
		p.Add(s, y)
		c.Add(p)
	}
	return p, c.Points(p)
}

func example() *Report {
	p, points := drifting(50_000)
	neg, pos := p.Classes()
	plot := Prequential(points, false, 1000, float64(max(neg, pos))/float64(neg+pos))
	plot.Marks, plot.MarkName = []float64{20_000, 35_000}, "the stream changes"
	return &Report{
		Title: "streamsvm: scs on <sea>",
		Lead:  "50,000 examples, one pass.",
		Plots: []Plot{plot},
		Tables: []Table{
			{Title: "Summary", Rows: [][]string{{"prequential accuracy", "0.9012"}, {"support vectors", "1,234"}}},
			{Title: "Tuning", Head: []string{"gamma", "lambda", "score"}, Rows: [][]string{{"0.5", "1e-4", "0.91"}}},
		},
		Foot: "streamsvm & friends",
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if keep := os.Getenv("STREAMSVM_REPORT"); keep != "" {
		dir = keep // to look at it
	}
	r := example()
	path, err := Write(dir, r)
	if err != nil {
		t.Fatal(err)
	}
	html, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<title>streamsvm: scs on &lt;sea&gt;</title>", `<img src="prequential.png"`, "<td>0.9012</td>", "<th>lambda</th>",
		"streamsvm &amp; friends", "learned from afterwards", "50,000 examples, one pass.",
	} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	// Nothing is fetched from elsewhere, and what is referred to is there.
	for _, m := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(string(html), -1) {
		if _, err := os.Stat(filepath.Join(dir, m[1])); err != nil {
			t.Error(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "prequential.png"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.Plots[0].PNG(); err != nil || !bytes.Equal(again, data) {
		t.Errorf("a second drawing differs, %v", err)
	}
}

func decode(t *testing.T, p Plot) image.Image {
	t.Helper()
	b, err := p.PNG()
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// painted returns the rectangle around all pixels of colour c below title and
// legend, and their number.
func painted(img image.Image, c color.NRGBA) (image.Rectangle, int) {
	var r image.Rectangle
	n := 0
	for y := 110; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			if color.NRGBAModel.Convert(img.At(x, y)) == c {
				r = r.Union(image.Rect(x, y, x+1, y+1))
				n++
			}
		}
	}
	return r, n
}

func TestPixels(t *testing.T) {
	line := func(y float64) Series { return Series{Name: "a", X: []float64{0, 50, 100}, Y: []float64{y, y, y}} }
	p := Plot{Title: "t", Series: []Series{line(0.75)}, YMin: 0.5, YMax: 1}
	img := decode(t, p)
	if got, want := img.Bounds().Size(), image.Pt(1350, 720); got != want {
		t.Errorf("size %v, want %v", got, want)
	}
	high, n := painted(img, palette[0])
	if n < 1000 || high.Dx() < 1000 {
		t.Fatalf("line of %d pixels in %v", n, high)
	}
	p.Series[0] = line(0.9)
	if higher, _ := painted(decode(t, p), palette[0]); higher.Min.Y >= high.Min.Y {
		t.Errorf("0.9 is at %v, 0.75 at %v", higher, high)
	}
	// Lines outside the axis are cut off, not drawn over the labels.
	p.Series[0] = Series{X: []float64{0, 50, 100}, Y: []float64{-20, 0.75, 30}}
	if r, n := painted(decode(t, p), palette[0]); n == 0 || r.Min.Y < 120 || r.Max.Y > 690 {
		t.Errorf("a steep line covers %v", r)
	}
	p.Series = []Series{line(0.6), line(0.7), line(0.8), line(0.9), line(0.95)}
	p.Series[0].Look, p.Series[2].Look = Faint, Dashed
	img = decode(t, p)
	for _, c := range []color.NRGBA{faint(palette[0]), palette[0], grey, palette[1], palette[2]} {
		if _, n := painted(img, c); n < 500 {
			t.Errorf("only %d pixels of %v", n, c)
		}
	}
}

func TestOddPlots(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for name, s := range map[string]Series{
		"one point":  {X: []float64{5}, Y: []float64{0.5}},
		"constant":   {X: []float64{1, 2, 3}, Y: []float64{0, 0, 0}},
		"gaps":       {X: []float64{1, 2, 3, 4}, Y: []float64{nan, 1, inf, 2}},
		"huge":       {X: []float64{1, 1e18}, Y: []float64{-1e300, 1e300}},
		"tiny":       {X: []float64{1, 2}, Y: []float64{1e-300, 3e-300}},
		"very close": {X: []float64{1, 2}, Y: []float64{1, math.Nextafter(1, 2)}},
	} {
		p := Plot{Title: name, Series: []Series{s}, Marks: []float64{-1, 2, 1e30}, MarkName: "mark"}
		if b, err := p.PNG(); err != nil || len(b) < 1000 {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	for name, p := range map[string]Plot{
		"no series":   {},
		"no point":    {Series: []Series{{X: []float64{1}, Y: []float64{nan}}}},
		"unequal":     {Series: []Series{{X: []float64{1, 2}, Y: []float64{1}}}},
		"empty curve": Prequential(nil, false, 1000, 0.5),
	} {
		if _, err := p.PNG(); err == nil {
			t.Errorf("%s: drawn", name)
		}
	}
	for _, file := range []string{"", "../x.png", "a/b.png"} {
		if _, err := Write(t.TempDir(), &Report{Plots: []Plot{{File: file, Series: []Series{{X: []float64{1}, Y: []float64{1}}}}}}); err == nil {
			t.Errorf("file name %q is accepted", file)
		}
	}
	notDir := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(notDir, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(notDir, &Report{}); err == nil {
		t.Error("a file is taken for a directory")
	}
}

func TestPrequentialRegression(t *testing.T) {
	p := Prequential([]eval.Point{{Examples: 1, All: 3, Window: 3}, {Examples: 2, All: 2, Window: 1}}, true, 5, math.NaN())
	if p.YLabel != "mean absolute error" || len(p.Series) != 2 || !slices.Equal(p.Series[1].Y, []float64{3, 2}) || !slices.Equal(p.Series[0].Y, []float64{3, 1}) {
		t.Errorf("%+v", p)
	}
}

func TestLimits(t *testing.T) {
	_, points := drifting(50_000)
	p := Prequential(points, false, 1000, math.NaN())
	var all []plotter.XYs
	for _, s := range p.Series {
		xys, err := s.finite()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, xys)
	}
	x0, x1, y0, y1 := p.limits(all)
	if x0 != 0 || x1 != 50_000 || y0 < 0.6 || y0 > 0.75 || y1 < 0.9 || y1 > 1 {
		t.Errorf("limits %v %v %v %v", x0, x1, y0, y1)
	}
	p.YMin, p.YMax = 0, 1
	if _, _, y0, y1 := p.limits(all); y0 != 0 || y1 != 1 {
		t.Errorf("given limits became %v %v", y0, y1)
	}
}

func TestTicks(t *testing.T) {
	for _, tt := range []struct {
		lo, hi float64
		want   string
	}{
		{0, 50_000, "0 10,000 20,000 30,000 40,000 50,000"},
		{0.70, 0.95, "0.70 0.75 0.80 0.85 0.90 0.95"},
		{0, 1, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{-1500, 1500, "-1,500 -1,000 -500 0 500 1,000 1,500"},
		{0, 2.4e6, "0 500,000 1,000,000 1,500,000 2,000,000"},
		{0.9911, 0.9934, "0.9915 0.9920 0.9925 0.9930"},
		{5, 5, "5"},
	} {
		var got []string
		for _, tick := range (ticks{}).Ticks(tt.lo, tt.hi) {
			got = append(got, tick.Label)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%v to %v: %v, want %s", tt.lo, tt.hi, got, tt.want)
		}
	}
}
