package page

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/eval"
)

func example() *Page {
	return &Page{
		Title: "streamsvm: scs on <sea>", Lead: "50,000 examples, one pass.",
		Answers: []Answer{{Question: "Is it <learning>?", Text: "no", Bad: true, Detail: "60 %", Section: "quality"}},
		Sections: []Section{{
			ID: "quality", Title: "Quality",
			Charts: []Chart{{
				Title: "Accuracy", Caption: "of <what>", X: Axis{Label: "examples"}, Y: Axis{Label: "accuracy", Percent: true},
				Series: []Series{{Name: "last 1000", X: []float64{1, 2, 3}, Y: []eval.Number{.5, .75, .8125}}},
				Marks:  []Marks{{Name: "the stream changes", At: []float64{2}}},
			}},
			Tables: []Table{
				{Title: "Summary", Rows: [][]string{{"prequential accuracy", "0.9012"}, {"support vectors", "1,234"}}},
				{Title: "Tuning", Head: []string{"gamma", "lambda", "score"}, Rows: [][]string{{"0.5", "1e-4", "0.91"}}},
			},
		}, {ID: "none", Empty: "Nothing <yet>."}},
		Foot: "streamsvm & friends",
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	path, err := Write(dir, example())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for _, want := range []string{
		"<title>streamsvm: scs on &lt;sea&gt;</title>", "<td>0.9012</td>", `<th scope="col" class="n">lambda</th>`, "streamsvm &amp; friends",
		"50,000 examples, one pass.", "Nothing &lt;yet&gt;.", `<a class="answer" href="#quality"><span>Is it &lt;learning&gt;?</span><strong class="bad">no</strong>`, "of &lt;what&gt;", "<td>81.25\u00a0%</td>", `"y":[0.5,0.75,0.8125]`, `"at":[2]`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for _, no := range []string{"src=", `href="http`, "@import", "url("} { // nothing is fetched
		if strings.Contains(page, no) {
			t.Errorf("the page has %s", no)
		}
	}
	// Its policy lets exactly its own script run.
	_, script, _ := strings.Cut(page, "<script>")
	script, _, _ = strings.Cut(script, "</script>")
	sum := sha256.Sum256([]byte(script))
	policy := "script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	if !strings.Contains(html.UnescapeString(page), policy) || !strings.Contains(page, "default-src &#39;none&#39;") && !strings.Contains(page, "default-src 'none'") {
		t.Errorf("the policy is not %s", policy)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}

func TestRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(file, &Page{}); err == nil {
		t.Error("a file is taken for a directory")
	}
}
