package onnx_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/contrib/onnx"
	"github.com/streamsvm/streamsvm/internal/plain"
)

// document returns the plain form of a model of so many features, or of events.
func document(features int, schema, preprocessing, model string) []byte {
	if schema == "" {
		schema = "null"
	}
	if preprocessing == "" {
		preprocessing = `{"hash":0,"scale":"none","common":0,"fill":false,"index":[],"shift":[],"factor":[],"clip":[-1e15,1e15]}`
	}
	return fmt.Appendf(nil, `{"format":"streamsvm-model","version":2,"learner":"online","task":"classify","origin":null,
		"signature":{"codec":"json","features":%d,"names":null,"schema":%s},
		"preprocessing":%s,"labels":[-1,1],"model":%s,"probability":null}`, features, schema, preprocessing, model)
}

const (
	linearModel    = `{"kind":"linear","bias":1,"features":2,"weights":[1,2]}`
	laplacianModel = `{"kind":"kernel","kernel":{"name":"laplacian","gamma":1,"coef0":0,"degree":0},"bias":0,"offset":0,"features":60000,"coef":[%s1],"points":[%s[1]]}`
	wavesModel     = `{"kind":"features","kernel":"rbf","gamma":1,"scale":1,"offset":0,"features":3,"coef":[1],"phases":[0],"frequencies":[[1,2,3]]}`
)

// TestRefused: what has no form in ONNX says why, and names the field.
func TestRefused(t *testing.T) {
	field := func(f string) string { return `{"label":"y","fields":[` + f + `]}` }
	laplacian := fmt.Sprintf(laplacianModel, strings.Repeat("1,", 19), strings.Repeat("[1],", 19))
	for _, c := range []struct {
		doc  []byte
		text string
	}{
		{document(2, field(`{"name":"tags","type":"tags","categories":["a"],"gaps":[false]}`), "", linearModel), "field tags is a list of categories"},
		{document(2, field(`{"name":"cart","type":"length","means":[2],"gaps":[false]}`), "", linearModel), "field cart is a list of any length"},
		{document(2, field(`{"name":"day","type":"time","unit":"yyyymmdd","parts":["weekday"],"gaps":[false]}`), "", linearModel), "field day holds dates"},
		{document(0, field(`{"name":"id","type":"ignore"}`), "", linearModel), "no field that is a feature"},
		{document(70000, "", "", laplacian), "vectors have 70000 features, and only a linear model"},
		{document(70000, "", `{"hash":8,"scale":"none","clip":[-1e15,1e15]}`, linearModel), "vectors have 70000 features"},
		{document(5, "", "", wavesModel), "random features of 3 features, and vectors have 5"},
		{document(0, "", `{"hash":8,"scale":"none","clip":[-1e15,1e15]}`, linearModel), "not known how many features"},
	} {
		_, err := onnx.Convert(c.doc, onnx.Options{})
		var refused *onnx.RefusedError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("refused with %v, want %q", err, c.text)
		}
	}
	var limit *plain.LimitError
	if _, err := onnx.Convert(document(2, "", "", linearModel), onnx.Options{MaxNumbers: 3}); !errors.As(err, &limit) {
		t.Errorf("numbers beyond the limit: %v", err)
	}
	for _, doc := range []string{"", "{}", `{"format":"streamsvm-model","version":3}`, string(document(2, "", "", `{"kind":"tree"}`)), string(document(2, "", "", `{"kind":"neighbours","nearest":2,"points":[[1]],"labels":[1]}`)), string(document(2, "", `{"scale":"minmax","index":[7],"shift":[],"factor":[]}`, linearModel))} {
		if _, err := onnx.Convert([]byte(doc), onnx.Options{}); err == nil {
			t.Errorf("%s is converted", doc)
		}
	}
}

// TestListed: rows of very many features list those that they have, and padding
// counts nothing.
func TestListed(t *testing.T) {
	python, dir := onnxPython(t), t.TempDir()
	const n = 70000
	scaled := fmt.Sprintf(`{"hash":0,"scale":"minmax","fill":false,"index":[0,%d],"shift":[0,0],"factor":[0.5,0],"clip":[-2,2]}`, n-1)
	weights := fmt.Sprintf(`{"index":[0,3,%d],"value":[3,5,7]}`, n-1)
	classes := fmt.Sprintf(`{"kind":"classes","parts":[{"kind":"linear","bias":1,"weights":%s},{"kind":"linear","bias":-1,"weights":[]},{"kind":"linear","bias":2,"weights":{"index":[3],"value":[-1]}}]}`, weights)
	three := strings.Replace(string(document(n, "", scaled, classes)), `"labels":[-1,1]`, `"labels":["a","b","c"]`, 1)
	for i, doc := range []string{string(document(n, "", scaled, fmt.Sprintf(`{"kind":"linear","bias":1,"weights":%s}`, weights))), three} {
		m, err := onnx.Convert([]byte(doc), onnx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		// {0: 1, 3: 0.25, n−1: 9} and, with padding, {3: −1}.
		inputs := []given{{"index", "int64", []int{2, 3}, []any{0, 3, n - 1, 3, n, n}}, {"value", "double", []int{2, 3}, []any{1, .25, 9, -1, 0, 0}}}
		data, err := json.Marshal(inputs)
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{"onnx": m.Bytes, "json": data} {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.%s", i, name)), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	out := run(t, python, dir, 2)
	// f = 1 + 3·½·1 + 5·¼ + 7·1, feature 3 having no scale, and 1 − 5.
	want := `{"label": [1.0, -1.0], "decision": [10.75, -4.0]}
{"label": ["a", "c"], "decision": [10.75, -1.0, 1.75, -4.0, -1.0, 3.0]}
`
	if out != want {
		t.Errorf("%s, want %s", out, want)
	}
}

// run runs the models of dir.
func run(t *testing.T, python, dir string, models int) string {
	t.Helper()
	script, err := filepath.Abs("testdata/run.py")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, script, strconv.Itoa(models))
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestEnsemble: features that an expert does not list are left out before its inputs are
// scaled to length 1, the first of equal points votes, and log odds are bounded.
func TestEnsemble(t *testing.T) {
	python, dir := onnxPython(t), t.TempDir()
	const model = `{"kind":"ensemble","bias":0.5,"mixed":2,"experts":[
		{"name":"o","preprocessing":{"hash":0,"scale":"standard","fill":false,"index":[0,1],"shift":[0,0],"factor":[1,1],"clip":[-5,5],"only_listed":true,"unit_length":true},
			"model":{"kind":"linear","bias":0,"weights":[1,1]},"terms":[{"square":1,"slope":2,"outer":1,"offset":0,"weight":1},{"square":0.01,"slope":1,"outer":1,"offset":1,"weight":%g,"share":0}]},
		{"name":"n","preprocessing":{"hash":0,"scale":"none","clip":[-1,1]},
			"model":{"kind":"neighbours","nearest":1,"points":[[9,9],[3,5],[3,5]],"labels":[-1,1,-1]},"terms":[{"square":0,"slope":1,"outer":2,"offset":1,"weight":0.25,"share":4},{"square":0,"slope":0,"offset":0,"weight":0,"share":2}]}]}`
	// The inputs are (3, 4, 9)/5 without the 9, so the first score is 1.4, which is at
	// most 4 in units of 0.1.
	var want []float64
	for i, weight := range []float64{0.1, 7} {
		m, err := onnx.Convert(document(3, "", "", fmt.Sprintf(model, weight)), onnx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{"onnx": m.Bytes, "json": []byte(`[{"name":"x","type":"double","shape":[1,3],"data":[3,4,9]}]`)} {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.%s", i, name)), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p := (4/(1+math.Exp(-2.7)) + 2*0.5) / 6
		want = append(want, min(0.5+2*0.3+1.1+weight*(4+1)+0.25*(0.3+2*0.7+1)+2*math.Log(p/(1-p)), 8))
	}
	answers := json.NewDecoder(strings.NewReader(run(t, python, dir, len(want))))
	for i, f := range want {
		var got struct{ Decision []float64 }
		if err := answers.Decode(&got); err != nil || len(got.Decision) != 1 || !(math.Abs(got.Decision[0]-f) <= 1e-6) {
			t.Errorf("model %d: %v, want %v: %v", i, got.Decision, f, err)
		}
	}
}

// TestText: a row with a word of more than 64 bytes has no decision, nor has one without
// text if that is refused, and no row has a text.
func TestText(t *testing.T) {
	python, dir := onnxPython(t), t.TempDir()
	for i, c := range []struct{ missing, texts string }{{"mean", `["a ` + strings.Repeat("é", 32) + `","a ` + strings.Repeat("é", 33) + `",""]`}, {"refuse", `["a","",""]`}, {"mean", `["","?","-"]`}} {
		schema := fmt.Sprintf(`{"label":"y","fields":[{"name":"m","type":"text","hash":2,"missing":%q}]}`, c.missing)
		m, err := onnx.Convert(document(2, schema, "", linearModel), onnx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string][]byte{"onnx": m.Bytes, "json": []byte(`[{"name":"m","type":"string","shape":[3,1],"data":` + c.texts + `}]`)} {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.%s", i, name)), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := `{"label": [1.0, null, 1.0], "decision": [3.1213203072547913, null, 1.0]}
{"label": [1.0, null, null], "decision": [3.0, null, null]}
{"label": [1.0, 1.0, 1.0], "decision": [1.0, 1.0, 1.0]}
`
	if got := run(t, python, dir, 3); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
