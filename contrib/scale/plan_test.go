package scale

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/contrib/scale/internal/normal"
	"github.com/streamsvm/streamsvm/internal/sift"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/trainer"
)

// version returns a model of lssvm and the examples that it has learned.
func version(t *testing.T, o trainer.Options, n int) ([]byte, []stream.Example) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	xs := make([]stream.Example, n)
	for i := range xs {
		v := []float32{float32(r.NormFloat64()), float32(3 * r.NormFloat64())}
		xs[i] = stream.Example{Labelled: true, Y: 1, X: stream.Vec{Val: v}}
		if v[0]*v[1] < 0 {
			xs[i].Y = -1
		}
	}
	o.Learner, o.Tune, o.Warmup = "lssvm", trainer.TuneOff, 200
	s, err := trainer.Fit(t.Context(), xs, o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Predictor()
	if err != nil {
		t.Fatal(err)
	}
	data, err := p.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return data, xs
}

// Every version of a model has the same plan; other features, scaling or options are
// another plan.
func TestPlan(t *testing.T) {
	few := map[string]string{"features": "64"}
	data, xs := version(t, trainer.Options{Set: few, Seed: 1}, 400)
	p, err := newPlan(data)
	if err != nil {
		t.Fatal(err)
	}
	s := &sketch{plan: p.blank, summed: 300}
	l, err := p.learner()
	if err != nil {
		t.Fatal(err)
	}
	for i := range xs[:300] {
		x := xs[i]
		x.X = p.pipe.Transform.Apply(x.X)
		l.Sum([]*stream.Example{&x})
	}
	s.sums, s.dim = l.Sums(), l.Dim()
	next, err := p.solve([]*sketch{s})
	if err != nil {
		t.Fatal(err)
	}
	again, err := newPlan(next)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.blank, p.blank) || bytes.Equal(next, p.blank) {
		t.Error("the plan of the next version is another one")
	}
	for name, o := range map[string]trainer.Options{
		"seed":    {Set: few, Seed: 2},
		"scale":   {Set: few, Seed: 1, Scale: trainer.ScaleMinMax},
		"gamma":   {Set: map[string]string{"features": "64", "gamma": "3"}, Seed: 1},
		"c":       {Set: map[string]string{"features": "64", "c": "3"}, Seed: 1},
		"running": {Set: few, Seed: 1, Scale: trainer.ScaleRunning},
	} {
		data, _ := version(t, o, 400)
		other, err := newPlan(data)
		if name == "running" {
			if err == nil {
				t.Error("a scale that depends on earlier examples is accepted")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(other.blank, p.blank) {
			t.Errorf("another %s is the same plan", name)
		}
		if _, err := other.solve([]*sketch{s}); !errors.Is(err, errOtherPlan) {
			t.Errorf("sums of another %s are solved: %v", name, err)
		}
	}

	// A sketch is the same when it comes from a file, and damage is noticed.
	file, err := s.encode()
	if err != nil {
		t.Fatal(err)
	}
	read := new(sketch)
	if err := read.decode(file); err != nil {
		t.Fatal(err)
	}
	if got, err := p.solve([]*sketch{read}); err != nil || !bytes.Equal(got, next) || read.summed != 300 {
		t.Errorf("a sketch read from a file is another one: %v", err)
	}
	for i := range file {
		if i > 40 && i < len(file)-40 && i%97 != 0 {
			continue
		}
		file[i] ^= 1
		if new(sketch).decode(file) == nil || new(sketch).decode(file[:i]) == nil {
			t.Fatalf("damage at byte %d is not noticed", i)
		}
		file[i] ^= 1
	}
}

// TestSummer: sums of records are those of their examples, to the bit, with the weights
// in their headers, and records that are not examples are counted.
func TestSummer(t *testing.T) {
	data, xs := version(t, trainer.Options{Set: map[string]string{"features": "64"}, Seed: 1}, 400)
	p, err := newPlan(data)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSummer(p)
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.learner()
	if err != nil {
		t.Fatal(err)
	}
	decode := func(_ context.Context, _ *stream.Arena, r *stream.Record, ex *stream.Example) error {
		if r.Offset%7 == 3 {
			return errors.New("broken")
		}
		*ex = xs[r.Offset]
		ex.Labelled = r.Offset%7 != 4
		return nil
	}
	for i := range xs {
		r := stream.Record{Offset: int64(i), Value: []byte("x")}
		x := xs[i]
		if i%2 == 0 {
			r.Headers = []stream.Header{{Key: sift.HeaderKey, Value: []byte("1 p=0.25 f=0.5 v=1 e=1")}}
			x.Weight, x.Represents = 4, 4
		}
		if bad := s.add(t.Context(), decode, &r); (bad != nil) != (i%7 == 3) {
			t.Errorf("record %d: %v", i, bad)
		}
		if i%7 != 3 && i%7 != 4 {
			x.X = p.pipe.Transform.Apply(x.X)
			l.Sum([]*stream.Example{&x})
		}
	}
	_ = s.add(t.Context(), decode, &stream.Record{})
	got := s.sketch()
	if got.summed != 286 || got.unlabelled != 57 || got.dead != 57 || got.tombstones != 1 {
		t.Errorf("%v", got)
	}
	a, err := got.sums.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := l.Sums().AppendBinary(nil); err != nil || !bytes.Equal(a, b) || got.dim != 2 {
		t.Errorf("the sums are others: %v", err)
	}
}

// FuzzSketch: no file makes decoding or solving panic.
func FuzzSketch(f *testing.F) {
	s := &sketch{plan: []byte("x"), summed: 1, dim: 1}
	var err error
	if s.sums, err = normal.New(2, 1, 0); err != nil {
		f.Fatal(err)
	}
	data, err := state.Append(nil, s.fields)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		data = append([]byte(magic), data...)
		s := new(sketch)
		if s.decode(binary.LittleEndian.AppendUint64(data, xxhash.Sum64(data))) != nil {
			return
		}
		if p, err := newPlan(s.plan); err == nil {
			_, _ = p.solve([]*sketch{s})
		}
	})
}
