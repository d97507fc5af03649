package trainer_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
	"github.com/streamsvm/streamsvm/trainer"
)

// The files in testdata/before were written by a version whose states had
// another format.
func before(name string) string { return filepath.Join("testdata", "before", name) }

func lines(t *testing.T, path string, f func(line []byte)) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := bufio.NewScanner(file)
	for s.Scan() {
		f(s.Bytes())
	}
}

func libsvm(t *testing.T) codec.Codec {
	t.Helper()
	c, err := codec.New("libsvm", codec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestModelsFromBefore: models are still read, and decide as they did.
func TestModelsFromBefore(t *testing.T) {
	var rows []stream.Vec
	lines(t, before("rows.libsvm"), func(line []byte) {
		var x stream.Example
		if err := libsvm(t).Decode(line, &x); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, x.X.Clone())
	})
	for _, name := range []string{"scs", "online", "tsgs3vm", "l1smooth"} {
		p, err := predictor.Load(before(name + ".ssm"))
		if err != nil {
			t.Error(err)
			continue
		}
		i := 0
		lines(t, before(name+".decisions"), func(line []byte) {
			var want struct{ Decision float64 }
			if err := json.Unmarshal(line, &want); err != nil {
				t.Fatal(err)
			}
			if got := p.Decision(rows[i]); !(math.Abs(got-want.Decision) <= 1e-5*max(1, math.Abs(want.Decision))) {
				t.Errorf("%s, row %d: %v, before %v", name, i, got, want.Decision)
			}
			i++
		})
		if p.Learner() != name || i != len(rows) {
			t.Errorf("%s: learner %s, %d decisions", name, p.Learner(), i)
		}
	}
}

// TestModelWithoutProbability: a model of the version before there were
// probabilities is read, and has none.
func TestModelWithoutProbability(t *testing.T) {
	p, err := predictor.Load(before("online2.ssm"))
	if err != nil {
		t.Fatal(err)
	}
	x := stream.Vec{Val: []float32{0.1, 0.9}}
	f := p.Decision(x)
	if q, known := p.Probability(f); known || !math.IsNaN(q) || p.Signature().Codec != "libsvm" || math.Abs(f-3.089879781931127) > 1e-6 {
		t.Errorf("decision %v, probability %v", f, q)
	}
}

// TestRecordingFromBefore: a recording is still read.
func TestRecordingFromBefore(t *testing.T) {
	res, err := trainer.Run(t.Context(), trainer.Job{
		Options: trainer.Options{Learner: "pegasos", Tune: trainer.TuneOff},
		Decoder: libsvm(t),
		Open: func(_ context.Context, from stream.Offsets) (stream.Source, error) {
			return fileio.Open([]string{before("moons.ssr")}, fileio.Options{Start: from})
		},
	})
	if err != nil || !res.Ended || res.Counts().Learned != 600 {
		t.Fatalf("%+v, %v", res, err)
	}
}

// TestCheckpointFromBefore: a checkpoint is refused, with a way out.
func TestCheckpointFromBefore(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile(before("checkpoint.ssc"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "checkpoint-0000000001-000000000001.ssc"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = trainer.Run(t.Context(), trainer.Job{
		Options:     trainer.Options{Learner: "pegasos", Tune: trainer.TuneOff, Seed: 1},
		Checkpoints: trainer.Checkpoints{Dir: dir},
		Open: func(context.Context, stream.Offsets) (stream.Source, error) {
			t.Error("the stream was opened")
			return nil, os.ErrInvalid
		},
	})
	var state *trainer.StateError
	if !errors.As(err, &state) || !strings.Contains(err.Error(), "older version") || !strings.Contains(err.Error(), "train again") {
		t.Error(err)
	}
}

// TestStateOfVersion2: a checkpoint without the largest index, and without some
// counts, goes on to the decisions and the measures of an undisturbed run, but
// for two measures over all examples and for probabilities, which begin anew.
func TestStateOfVersion2(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile(before("engine2.ssc"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "checkpoint-0000000001-000000000001.ssc"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	var models []algos.Model
	var measures [][]stream.Measure
	for _, dir := range []string{dir, ""} {
		res, err := trainer.Run(t.Context(), trainer.Job{
			Options:     trainer.Options{Learner: "pegasos", Tune: trainer.TuneOff, Seed: 1},
			Decoder:     libsvm(t),
			Checkpoints: trainer.Checkpoints{Dir: dir},
			Open: func(_ context.Context, from stream.Offsets) (stream.Source, error) {
				if dir != "" && len(from) == 0 {
					t.Error("the stream is read from its beginning")
				}
				return fileio.Open([]string{before("moons.ssr")}, fileio.Options{Start: from})
			},
		})
		if err != nil || !res.Ended || res.Counts().Learned != 600 {
			t.Fatalf("%+v, %v", res, err)
		}
		p, err := res.Predictor()
		if err != nil {
			t.Fatal(err)
		}
		models, measures = append(models, p.Model()), append(measures, res.Measures())
	}
	got, err := models[0].AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := models[1].AppendBinary(nil)
	if err != nil || !bytes.Equal(got, want) {
		t.Error("the model is not that of an undisturbed run")
	}
	for i, want := range measures[1] {
		got := measures[0][i]
		if slices.Contains(strings.Split(want.Name, "_"), "brier") || slices.Contains(strings.Split(want.Name, "_"), "ece") || strings.HasPrefix(want.Name, "prequential_log_loss") {
			continue
		}
		unknown := want.Name == "prequential_majority"
		if got.Name != want.Name || math.IsNaN(got.Value) != (unknown || math.IsNaN(want.Value)) || !unknown && !math.IsNaN(got.Value) && got.Value != want.Value {
			t.Errorf("%s %v, of an undisturbed run %s %v", got.Name, got.Value, want.Name, want.Value)
		}
	}
}
