package chart

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/eval"
)

var nan, inf = math.NaN(), math.Inf(1)

// drawn returns what the script gets to see.
func drawn(t *testing.T, c *Chart) (html string, data map[string]any) {
	t.Helper()
	var h HTML
	if err := h.Chart(c); err != nil {
		t.Fatal(err)
	}
	html = h.String()
	_, text, _ := strings.Cut(html, `<script type="application/json">`)
	text, _, ok := strings.Cut(text, "</script>")
	if !ok {
		t.Fatalf("no data in\n%s", html)
	}
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return html, data
}

func TestData(t *testing.T) {
	c := Chart{Series: []Series{{Name: "</script><script>alert(1)", X: []float64{1, 2, 3, 4}, Y: []eval.Number{eval.Number(nan), 1, eval.Number(inf), 2}}, {Name: "none"}}}
	html, data := drawn(t, &c)
	if n := strings.Count(html, "<script"); n != 1 {
		t.Errorf("%d scripts in\n%s", n, html)
	}
	first := data["series"].([]any)[0].(map[string]any)
	if first["name"] != c.Series[0].Name || !slices.Equal(first["x"].([]any), []any{1.0, 2.0, 3.0, 4.0}) || !slices.Equal(first["y"].([]any), []any{nil, 1.0, nil, 2.0}) {
		t.Errorf("%v", first)
	}
}

func TestRows(t *testing.T) {
	long := Series{Name: "long"}
	for i := range 1000 {
		long.X, long.Y = append(long.X, float64(i+1)), append(long.Y, eval.Number(i+1)/1000)
	}
	c := Chart{X: Axis{Label: "examples"}, Y: Axis{Percent: true}, Series: []Series{long, {Name: "few", X: []float64{500, 900}, Y: []eval.Number{.25, eval.Number(nan)}}}}
	if got := c.Head(); !slices.Equal(got, []string{"examples", "long", "few"}) {
		t.Errorf("head %v", got)
	}
	rows := c.Rows()
	if len(rows) != 20 || !slices.Equal(rows[0], []string{"1000", "100.00 %", "–"}) || !slices.Equal(rows[4], []string{"800", "80.00 %", "25.00 %"}) ||
		!slices.Equal(rows[19], []string{"50", "5.00 %", "–"}) {
		t.Errorf("%d rows: %v", len(rows), rows)
	}
	for _, n := range []int{0, 1, 20, 21, 1000} {
		c.Series[0].X, c.Series[0].Y, c.Series[1] = long.X[:n], long.Y[:n], Series{}
		if got := len(c.Rows()); got > 20 || got < min(n, 11) {
			t.Errorf("%d points: %d rows", n, got)
		}
	}
	for v, want := range map[float64]string{2: "2", 1e6: "1000000", 1.0 / 3: "0.33333", 1e-9: "1e-09", -1e300: "-1e+300"} {
		if got := (&Axis{}).text(v); got != want {
			t.Errorf("%v is %q", v, got)
		}
	}
}

func TestPrequential(t *testing.T) {
	points := []eval.Point{{Examples: 1, All: 3, Window: 3}, {Examples: 2, All: 2, Window: 1}}
	c := Prequential(points, true, 5)
	if c.Y.Label != "mean absolute error" || c.Y.Percent || len(c.Series) != 2 || !slices.Equal(c.Series[1].Y, []eval.Number{3, 2}) || !slices.Equal(c.Series[0].Y, []eval.Number{3, 1}) {
		t.Errorf("%+v", c)
	}
	if c = Prequential(nil, false, 5); !c.Y.Percent || len(c.Series) != 2 || len(c.Rows()) != 0 {
		t.Errorf("%+v", c)
	}
}

func TestReliability(t *testing.T) {
	p := eval.New(false, 3)
	s := p.Summary()
	if c := Reliability(&s); c != nil {
		t.Errorf("of nothing: %+v", c)
	}
	for i, q := range []float64{.1, .2, .7, .7} {
		p.Add(1, 1)
		p.AddProbability(q, i > 1)
	}
	s = p.Summary()
	c := Reliability(&s)
	if window := c.Series[0]; window.Name != "last 3 examples" || !slices.Equal(window.X, []float64{.2, .7}) || !slices.Equal(window.Y, []eval.Number{0, 1}) {
		t.Errorf("%+v", window)
	}
	if all, rows := c.Series[1], c.Rows(); !slices.Equal(all.X, []float64{.1, .2, .7}) || !slices.Equal(rows[1], []string{"70.00 %", "100.00 %", "100.00 %", "70.00 %"}) {
		t.Errorf("%+v, %v", all, rows)
	}
}

func TestScript(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/chart.js", nil)
	w := httptest.NewRecorder()
	Script(w, r)
	if h := w.Header(); w.Code != http.StatusOK || !strings.HasPrefix(h.Get("Content-Type"), "text/javascript") || w.Body.String() != script {
		t.Errorf("%d, %v", w.Code, h)
	}
	for _, want := range []string{"https://github.com/leeoniya/uPlot", "figure.chart"} {
		if !strings.Contains(script, want) {
			t.Errorf("the script lacks %s", want)
		}
	}
	r.Header.Set("If-None-Match", w.Header().Get("ETag"))
	w = httptest.NewRecorder()
	if Script(w, r); w.Code != http.StatusNotModified {
		t.Errorf("asked again: %d", w.Code)
	}
	if text := read("uplot/LICENSE"); !strings.Contains(text, "MIT") {
		t.Error("uPlot's licence is not there")
	}
}

// Text from elsewhere is text: between tags, in attributes and in the data of the
// script.
func TestEscape(t *testing.T) {
	bad := `</script></title>"'><img src=x onerror=a()>&amp;`
	var h HTML
	c := Chart{Title: bad, Caption: bad, X: Axis{Label: bad}, Series: []Series{{Name: bad, X: []float64{1}, Y: []eval.Number{1}}}}
	if err := h.Charts([]Chart{c, c}); err != nil {
		t.Fatal(err)
	}
	h.Tables([]Table{{Title: bad, Head: []string{bad, "b", "c", "d", "e"}, Rows: [][]string{{bad, bad}}, Heat: [][]float64{{.5}}, Note: bad}})
	text := h.String()
	for _, part := range []string{"<img", `"'>`, "&amp;amp;amp;"} {
		if strings.Contains(text, part) {
			t.Errorf("%s in\n%s", part, text)
		}
	}
	if n := strings.Count(text, "&lt;/script&gt;&lt;/title&gt;&#34;&#39;&gt;&lt;img src=x onerror=a()&gt;&amp;amp;"); n != 16 {
		t.Errorf("%d times the text in\n%s", n, text)
	}
	if n := strings.Count(text, "</script>"); n != 2 {
		t.Errorf("%d scripts end in\n%s", n, text)
	}
	if !strings.Contains(text, `style="--heat:50%"`) {
		t.Errorf("no heat in\n%s", text)
	}
}
