package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/trainer"
)

// few is a source that delivers some records at a time, up to an end.
type few struct {
	recs []stream.Record
	at   int
	each int
}

func (f *few) Fetch(_ context.Context, dst []stream.Record) ([]stream.Record, error) {
	if f.at == len(f.recs) {
		return dst, io.EOF
	}
	n := min(f.each, len(f.recs)-f.at)
	dst = append(dst, f.recs[f.at:f.at+n]...)
	f.at += n
	return dst, nil
}

func (*few) Close() error { return nil }

// TestEventsInParts: what is found out about events in one run holds for the
// next, and the state is that of a run that is not cut, however records come and
// however many processors there are; a checkpoint does not go on where something
// else is said about them.
func TestEventsInParts(t *testing.T) {
	rng := rand.New(rand.NewSource(2))
	var recs []stream.Record
	for i := range 2400 {
		amount, country := rng.ExpFloat64()*50, []string{"DE", "FR", "BR"}[rng.Intn(3)]
		value := fmt.Sprintf(`{"amount":%.2f,"country":%q,"bad":%v}`, amount, country, (amount > 40) != (country == "BR"))
		switch i % 300 {
		case 7:
			value = fmt.Sprintf(`{"amount":"much","country":%q,"bad":true}`, country) // a dead letter
		case 8:
			value = `{"bad":false,"country":null}`
		}
		recs = append(recs, stream.Record{Topic: "tx", Offset: int64(i), Value: []byte(value)})
	}
	run := func(dir string, end, each int, label string) (trainer.Result, error) {
		t.Helper()
		d, err := codec.NewDiscovery("json", codec.Options{Labels: codec.Auto, Events: codec.Auto, Label: label})
		if err != nil {
			t.Fatal(err)
		}
		return trainer.Run(t.Context(), trainer.Job{
			Options: trainer.Options{Learner: "adaptive"}, Discovery: d, Tolerance: trainer.TolerateData,
			Open: func(_ context.Context, from stream.Offsets) (stream.Source, error) {
				return &few{recs: recs[:end], at: int(from[stream.Partition{Topic: "tx"}]), each: each}, nil
			},
			Checkpoints: trainer.Checkpoints{Dir: dir, Every: 500, Interval: -1}, Unfinished: end < len(recs),
		})
	}
	dir := t.TempDir()
	cut := filepath.Join(dir, "cut")
	if res, err := run(cut, 1300, 7, "bad"); err != nil || res.Counts().Consumed != 1300 {
		t.Fatalf("%+v, %v", res, err)
	}
	var state *trainer.StateError
	if _, err := run(cut, len(recs), 100, "country"); !errors.As(err, &state) {
		t.Errorf("another label: %v", err)
	}
	parts, err := run(cut, len(recs), 100, "bad")
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	whole, err := run(filepath.Join(dir, "whole"), len(recs), 512, "bad")
	if err != nil {
		t.Fatal(err)
	}
	a, err1 := parts.Hash()
	b, err2 := whole.Hash()
	if a != b || errors.Join(err1, err2) != nil || whole.Counts().Dead != 8 {
		t.Errorf("state %016x in two runs, %016x in one; %v %v; %+v", a, b, err1, err2, whole.Counts())
	}
	// The model reads an event.
	p, err := whole.Predictor()
	if err != nil {
		t.Fatal(err)
	}
	sig := p.Signature()
	c, err := codec.New(sig.Codec, codec.Options{Labels: sig.Labels, Schema: sig.Schema})
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]any{
		`{"amount":120,"country":"DE"}`: true, `{"amount":120,"country":"BR"}`: false, `{"country":"FR","amount":3}`: false, `{"country":"BR","amount":3}`: true,
	} {
		var ex stream.Example
		if err := c.Decode([]byte(value), &ex); err != nil {
			t.Fatal(err)
		}
		if got := sig.Label(p.Predict(ex.X)); got != want {
			t.Errorf("%s is %v", value, got)
		}
	}
}
