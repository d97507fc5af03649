package page

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
	var h writer
	if err := h.chart(c); err != nil {
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
	got, rows := c.numbers()
	if !slices.Equal(got, []string{"examples", "long", "few"}) {
		t.Errorf("head %v", got)
	}
	if len(rows) != 20 || !slices.Equal(rows[0], []string{"1000", "100.00 %", "–"}) || !slices.Equal(rows[4], []string{"800", "80.00 %", "25.00 %"}) ||
		!slices.Equal(rows[19], []string{"50", "5.00 %", "–"}) {
		t.Errorf("%d rows: %v", len(rows), rows)
	}
	for _, n := range []int{0, 1, 20, 21, 1000} {
		c.Series[0].X, c.Series[0].Y, c.Series[1] = long.X[:n], long.Y[:n], Series{}
		if got := rowCount(&c); got > 20 || got < min(n, 11) {
			t.Errorf("%d points: %d rows", n, got)
		}
	}
	for v, want := range map[float64]string{2: "2", 1e6: "1000000", 1.0 / 3: "0.33333", 1e-9: "1e-09", -1e300: "-1e+300"} {
		if got := (&Axis{}).text(v); got != want {
			t.Errorf("%v is %q", v, got)
		}
	}
}

func rowCount(c *Chart) int {
	_, rows := c.numbers()
	return len(rows)
}

func TestPrequential(t *testing.T) {
	if c := Prequential(true, ", x"); c.Title != "Prequential mean absolute error, x" || c.Y.Percent || rowCount(&c) != 0 {
		t.Errorf("%+v", c)
	}
	if c := Prequential(false, ""); !c.Y.Percent {
		t.Errorf("%+v", c)
	}
}

func TestText(t *testing.T) {
	for got, want := range map[string]string{
		Count(1, "record"): "1 record", Count(1234567, "record"): "1\u00a0234\u00a0567 records", Count(999, ""): "999", Count(int64(-3), ""): "0",
		Clip("äöüß", 3): "äö…", Clip("äöü", 3): "äöü",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
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
	var h writer
	c := Chart{Title: bad, Caption: bad, X: Axis{Label: bad}, Series: []Series{{Name: bad, X: []float64{1}, Y: []eval.Number{1}}}}
	table := Table{Title: bad, Head: []string{bad, "b", "c", "d", "e"}, Rows: [][]string{{bad, bad}}, Heat: [][]float64{{.5}}, Note: bad}
	if err := h.section(&Section{Title: bad, Charts: []Chart{c, c}, Tables: []Table{table}}); err != nil {
		t.Fatal(err)
	}
	text := h.String()
	for _, part := range []string{"<img", `"'>`, "&amp;amp;amp;"} {
		if strings.Contains(text, part) {
			t.Errorf("%s in\n%s", part, text)
		}
	}
	if n := strings.Count(text, "&lt;/script&gt;&lt;/title&gt;&#34;&#39;&gt;&lt;img src=x onerror=a()&gt;&amp;amp;"); n != 20 {
		t.Errorf("%d times the text in\n%s", n, text)
	}
	if n := strings.Count(text, "</script>"); n != 2 {
		t.Errorf("%d scripts end in\n%s", n, text)
	}
	if !strings.Contains(text, `style="--heat:50%"`) {
		t.Errorf("no heat in\n%s", text)
	}
}
