package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	_ "github.com/streamsvm/streamsvm/contrib/scale/lssvm"
	"github.com/streamsvm/streamsvm/stream"
)

// TestTuneAuto: options are chosen on the first examples under every preset but
// that of the publication, unless the user says otherwise.
func TestTuneAuto(t *testing.T) {
	for _, c := range []struct {
		preset string
		tune   Tune
		want   bool
	}{
		{"default", "auto", true}, {"drift", "auto", true}, {"paper", "auto", false},
		{"paper", "on", true}, {"drift", "off", false}, {"default", "off", false},
	} {
		cfg, err := Options{Learner: "sbp", Preset: c.preset, Tune: c.tune}.config()
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Tune != c.want {
			t.Errorf("preset %s, tune %s: tunes: %v", c.preset, c.tune, cfg.Tune)
		}
	}
}

// TestMisspelt: names that are not right are refused before anything is read,
// all of them at once, with what was probably meant.
func TestMisspelt(t *testing.T) {
	o := Options{Learner: "sbp", Preset: "papr", Set: map[string]string{"gama": "1", "lambda": "-1"}, Scale: "minmaks", Warmup: -1, MaxClasses: 1 << 13}
	err := o.Validate()
	for _, want := range []string{"paper", `Set["gama"]`, "gamma", `Set["lambda"]`, "minmaks", "Warmup", "MaxClasses: 8192"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v does not mention %s", err, want)
		}
	}
	for field, o := range map[string]Options{
		"HashDim": {HashDim: 1 << 31}, "MaxClasses": {MaxClasses: 2}, "VersionEvery": {VersionEvery: -1}, "Join": {Join: Join{Topic: "labels"}},
	} {
		var bad *OptionError
		if err := o.Validate(); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	read := false
	_, err = Run(t.Context(), Job{Options: o, Open: func(context.Context, stream.Offsets) (stream.Source, error) {
		read = true
		return nil, io.EOF
	}})
	var bad *OptionError
	if !errors.As(err, &bad) || read {
		t.Errorf("Run: %v, opened %v", err, read)
	}
	if _, err := Fit(t.Context(), nil, Options{Learner: "sbpp"}); !strings.Contains(fmt.Sprint(err), `did you mean "sbp"`) {
		t.Error(err)
	}
}

// values is a stream of records with these values; "" is a tombstone.
type values []string

func (v *values) Fetch(_ context.Context, dst []stream.Record) ([]stream.Record, error) {
	if len(*v) == 0 {
		return dst, io.EOF
	}
	for i, s := range *v {
		r := stream.Record{Topic: "t", Offset: int64(i)}
		if s != "" {
			r.Value = []byte(s)
		}
		dst = append(dst, r)
	}
	*v = nil
	return dst, nil
}

func (v *values) Close() error { return nil }

// TestStreamsThatAreNotWhatTheySeem: what a job says of them, by its fields.
func TestStreamsThatAreNotWhatTheySeem(t *testing.T) {
	run := func(j Job, list ...string) (Result, error) {
		v := values(list)
		j.Learner, j.Warmup = "sbp", 10
		j.Open = func(context.Context, stream.Offsets) (stream.Source, error) { return &v, nil }
		return Run(t.Context(), j)
	}
	many := func(n int, list ...string) (all []string) {
		for range n {
			all = append(all, list...)
		}
		return all
	}
	good := []string{`{"x":[1],"y":1}`, `{"x":[0],"y":-1}`}
	var dead *stream.DeadError
	var one *stream.OneLabelError
	var refused *stream.RecordError
	if _, err := run(Job{Tolerance: TolerateData}, many(60, "?", good[0], "?", good[1], "?")...); !errors.As(err, &dead) || dead.Dead != 51 || dead.Example.Offset != 0 || dead.Alike != 51 {
		t.Errorf("three in five are bad: %v", err)
	}
	res, err := run(Job{Tolerance: TolerateAll, MaxDead: 0.7}, many(60, "?", good[0], "?", good[1], "?")...)
	if n := res.Counts(); err != nil || n.Dead != 180 || n.Consumed != 300 {
		t.Errorf("as many as allowed: %v, %+v", err, n)
	}
	if _, err := run(Job{}, many(60, good[0])...); !errors.As(err, &one) || one.Labelled != 60 || one.Label != 1 {
		t.Errorf("one label: %v", err)
	}
	res, err = run(Job{Unfinished: true}, many(60, good[0])...)
	if p, perr := res.Predictor(); err != nil || perr != nil || p != nil || res.OneLabel() == nil {
		t.Errorf("one label so far: %v, %v, a predictor: %v", err, perr, p != nil)
	}
	if _, err := run(Job{}, many(60, good[0], "", good[1])...); !errors.As(err, &refused) || refused.Reason != stream.ReasonEmpty || refused.Offset != 1 {
		t.Errorf("tombstones: %v", err)
	}
	res, err = run(Job{Tombstones: TombstonesSkip}, many(60, good[0], "", good[1])...)
	if n := res.Counts(); err != nil || n.Tombstones != 60 || n.Learned != 120 || n.Consumed != 180 || res.OneLabel() != nil {
		t.Errorf("tombstones skipped: %v, %+v", err, n)
	}
	for field, j := range map[string]Job{"MaxDead": {MaxDead: 1.5}, "Tombstones": {Tombstones: "bury"}} {
		var bad *OptionError
		if _, err := run(j, good...); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	open := func(context.Context, stream.Offsets) (stream.Source, error) { return nil, nil }
	for field, j := range map[string]Job{"Open": {Open: open}, "Kafka": {Open: open, Tolerance: TolerateAll, DeadLetters: ".dlq"}} {
		var bad *OptionError
		if _, err := Run(t.Context(), j); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	examples := []stream.Example{{X: stream.Vec{Val: []float32{1}}, Y: 1, Labelled: true}}
	if _, err := Fit(t.Context(), examples, Options{Learner: "sbp"}); !errors.As(err, &one) {
		t.Errorf("Fit: %v", err)
	}
}
