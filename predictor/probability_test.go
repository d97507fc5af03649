package predictor_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/calibrate"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

// weighed returns a predictor whose decision is the one feature.
func weighed(t *testing.T, task algos.Task, m *calibrate.Map) *predictor.Predictor {
	t.Helper()
	spec, err := registry.Lookup("online")
	if err != nil {
		t.Fatal(err)
	}
	return predictor.New(spec, task, nil, new(prep.Transform), model.NewLinear([]float64{1}, 0)).WithProbability(m)
}

var oddsMap = &calibrate.Map{Decisions: []float64{-2, 0, 1}, LogOdds: []float64{-4, -1, 3}}

// TestProbability takes probabilities through the encoded form, compiled and
// not, and through that of Python.
func TestProbability(t *testing.T) {
	first := weighed(t, algos.Classify, oddsMap)
	data, err := first.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := predictor.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := second.AppendBinary(nil)
	if err != nil || !bytes.Equal(again, data) {
		t.Errorf("written again it is other bytes, %v", err)
	}
	decisions := []float64{-1e30, -2, -1, -0.25, 0, 0.5, 1, 7}
	logOdds := []float64{-4, -4, -2.5, -1.375, -1, 1, 3, 3}
	for _, p := range []*predictor.Predictor{first, second, second.Compile()} {
		for i, f := range decisions {
			if got := p.Decision(stream.Vec{Val: []float32{float32(f)}}); got != float64(float32(f)) {
				t.Fatalf("f(%v) is %v", f, got)
			}
			want := 1 / (1 + math.Exp(-logOdds[i]))
			if got, known := p.Probability(f); !known || math.Abs(got-want) > 1e-14 {
				t.Errorf("p(%v) is %v, %v, want %v", f, got, known, want)
			}
		}
	}
	if got, known := weighed(t, algos.Classify, nil).Probability(1); known || !math.IsNaN(got) {
		t.Errorf("probability %v of a model without", got)
	}

	dir, rows := t.TempDir(), ""
	for _, f := range decisions {
		rows += "[" + strconv.FormatFloat(f, 'g', -1, 32) + "]\n"
	}
	var doc bytes.Buffer
	if err := first.Export(&doc, predictor.ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"reader.py": reader(t), "model.json": doc.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), python(t), "reader.py", "model.json")
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, strings.NewReader(rows), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(out))
	if len(fields) != 2*len(decisions) {
		t.Fatalf("%s", out)
	}
	for i, f := range decisions {
		want, _ := first.Probability(f)
		if got, err := strconv.ParseFloat(fields[2*i+1], 64); err != nil || math.Abs(got-want) > 1e-14 {
			t.Errorf("the reader's p(%v) is %s, want %v", f, fields[2*i+1], want)
		}
	}
}

// TestProbabilityDamaged changes the encoded map, and the version.
func TestProbabilityDamaged(t *testing.T) {
	seal := func(body []byte) []byte { return binary.LittleEndian.AppendUint64(body, xxhash.Sum64(body)) }
	encode := func(m *calibrate.Map) []byte {
		data, err := weighed(t, algos.Classify, m).AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		return data[:len(data)-8]
	}
	for name, bad := range map[string][]byte{
		"log odds that decrease":       encode(&calibrate.Map{Decisions: []float64{0, 1}, LogOdds: []float64{1, 0}}),
		"no points":                    encode(&calibrate.Map{}),
		"an unknown form":              bytes.Replace(encode(nil), []byte("none"), []byte("some"), 1),
		"a later version":              bytes.Replace(encode(nil), []byte("predictor-3"), []byte("predictor-4"), 1),
		"version 2 with probabilities": bytes.Replace(encode(nil), []byte("predictor-3"), []byte("predictor-2"), 1),
	} {
		if _, err := predictor.Decode(seal(bad)); err == nil {
			t.Errorf("%s is read", name)
		}
	}

	if _, err := weighed(t, algos.Regress, oddsMap).AppendBinary(nil); err == nil {
		t.Error("a regression with probabilities is written")
	}

	// Version 2 ends before the probabilities.
	none, err := state.Append(nil, func(f *state.Fields) {
		f.Group("probability", func(f *state.Fields) {
			form := "none"
			f.String("form", &form)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	before, ok := bytes.CutSuffix(encode(nil), none)
	if !ok {
		t.Fatal("the probabilities are not at the end")
	}
	before = bytes.Replace(before, []byte("predictor-3"), []byte("predictor-2"), 1)
	p, err := predictor.Decode(seal(before))
	if err != nil {
		t.Fatal(err)
	}
	if _, known := p.Probability(1); known || p.Decision(stream.Vec{Val: []float32{2}}) != 2 {
		t.Error("a model of version 2 has probabilities, or decides otherwise")
	}
}
