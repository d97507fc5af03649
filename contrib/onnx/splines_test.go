package onnx_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/contrib/onnx"
)

// splinesModel has features with different numbers of knots, one that no vector has, and a pair.
const splinesModel = `{"kind":"splines","bias":0.5,"features":[0,2,9],"knots":[[0,2,4],[1,3],[0]],"coarse":[[0,4],[1,2,3],[0]],
	"weights":[[1,2,4],[10,20],[5]],"pairs":[{"features":[2,0],"weights":[[0,0],[0,8],[4,0]]}]}`

// TestSplines compares with sums by hand: between knots, below them, and beyond.
func TestSplines(t *testing.T) {
	python, dir := onnxPython(t), t.TempDir()
	m, err := onnx.Convert(document(3, "", "", splinesModel), onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"0.onnx": m.Bytes, "0.json": []byte(`[{"name":"x","type":"double","shape":[3,3],"data":[1,7,2.5,-1,7,9,9,7,0]}]`)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got struct{ Decision []float64 }
	if err := json.Unmarshal([]byte(run(t, python, dir, 1)), &got); err != nil {
		t.Fatal(err)
	}
	want := []float64{
		0.5 + 1.5 + 17.5 + 5 + 0.5*0.25*8 + 0.5*0.75*4,
		0.5 + 1 + 20 + 5 + 4,
		0.5 + 4 + 10 + 5 + 0,
	}
	if len(got.Decision) != len(want) {
		t.Fatalf("%v, want %v", got.Decision, want)
	}
	for i, f := range want {
		if !(math.Abs(got.Decision[i]-f) <= 1e-6) {
			t.Errorf("row %d: %g, want %g", i, got.Decision[i], f)
		}
	}
}

// Lists that do not go together are errors.
func TestSplinesRefused(t *testing.T) {
	for _, change := range [][2]string{
		{`"features":[0,2,9]`, `"features":[0,2]`},
		{`"features":[0,2,9]`, `"features":[0,-2,9]`},
		{`"knots":[[0,2,4],[1,3],[0]]`, `"knots":[[0,2,4],[1,3],[]]`},
		{`"knots":[[0,2,4],[1,3],[0]]`, `"knots":[[0,2,4]]`},
		{`"coarse":[[0,4],[1,2,3],[0]]`, `"coarse":[[0,4],[],[0]]`},
		{`[10,20]`, `[10]`},
		{`"features":[2,0]`, `"features":[2,1]`},
		{`[[0,0],[0,8],[4,0]]`, `[[0,0],[0,8]]`},
		{`[[0,0],[0,8],[4,0]]`, `[[0,0],[0,8],[4]]`},
	} {
		doc := strings.Replace(splinesModel, change[0], change[1], 1)
		if doc == splinesModel {
			t.Fatalf("%q is not there", change[0])
		}
		if _, err := onnx.Convert(document(3, "", "", doc), onnx.Options{}); err == nil {
			t.Errorf("%v is converted", change)
		}
	}
}
