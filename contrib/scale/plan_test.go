package scale

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
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

// sketchOf sums examples for a plan.
func sketchOf(t *testing.T, p *plan, xs []stream.Example) *sketch {
	t.Helper()
	s, err := newSummer(planOf(t, p.id))
	if err != nil {
		t.Fatal(err)
	}
	decode := func(_ context.Context, _ *stream.Arena, r *stream.Record, ex *stream.Example) error {
		*ex = xs[r.Offset]
		return nil
	}
	for i := range xs {
		if err := s.add(t.Context(), decode, &stream.Record{Offset: int64(i), Value: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	return s.sketch()
}

func planOf(t *testing.T, data []byte) *plan {
	t.Helper()
	p, err := newPlan(data)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Every version of a model has the same plan; other features, scaling or options are
// another plan.
func TestPlan(t *testing.T) {
	few := map[string]string{"features": "64"}
	data, xs := version(t, trainer.Options{Set: few, Seed: 1}, 400)
	p := planOf(t, data)
	s := sketchOf(t, p, xs[:300])
	next, _, err := solve([]*sketch{s})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(planOf(t, next).id, p.id) || bytes.Equal(next, p.id) {
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
		if bytes.Equal(other.id, p.id) {
			t.Errorf("another %s is the same plan", name)
		}
		if _, _, err := solve([]*sketch{s, sketchOf(t, other, xs[:300])}); !errors.Is(err, errOtherPlan) {
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
	if got, _, err := solve([]*sketch{read}); err != nil || !bytes.Equal(got, next) || read.String() != s.String() {
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

// TestSplits: sketches and models have the same bytes, whatever the number of splits, the
// order of the records and the tree of merges, for squares and for a hinge.
func TestSplits(t *testing.T) {
	for _, loss := range []string{"squares", "hinge"} {
		data, xs := version(t, trainer.Options{Set: map[string]string{"features": "64", "loss": loss}, Seed: 1}, 1500)
		p := planOf(t, data)
		for i := range xs {
			if i%3 == 0 {
				xs[i].Weight = float32(1 + i%7)
			}
		}
		r := rand.New(rand.NewPCG(5, 6))
		var want, model []byte
		for _, splits := range []int{1, 3, 17, 100} {
			r.Shuffle(len(xs), func(i, j int) { xs[i], xs[j] = xs[j], xs[i] })
			var list []*sketch
			for k := range splits {
				list = append(list, sketchOf(t, p, xs[len(xs)*k/splits:len(xs)*(k+1)/splits]))
			}
			for len(list) > 1 {
				r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
				if err := list[0].merge(list[1]); err != nil {
					t.Fatal(err)
				}
				list = append(list[:1], list[2:]...)
			}
			got, err := list[0].encode()
			if err != nil {
				t.Fatal(err)
			}
			m, _, err := solve(list)
			if err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want, model = got, m
			}
			if !bytes.Equal(got, want) || !bytes.Equal(m, model) {
				t.Errorf("%s: %d splits give another sketch or model", loss, splits)
			}
		}
	}
}

// TestPasses: passes over a hinge go down until they converge, and a step that is known
// not to go down is halved. The order of the sketches does not matter.
func TestPasses(t *testing.T) {
	data, xs := version(t, trainer.Options{Set: map[string]string{"features": "64", "loss": "hinge"}, Seed: 1}, 1500)
	var list []*sketch
	model, said := data, ""
	for !strings.HasSuffix(said, "converged") {
		if len(list) == 15 {
			t.Fatalf("no convergence: %s", said)
		}
		list = append(list, sketchOf(t, planOf(t, model), xs))
		var err error
		if model, said, err = solve(list); err != nil {
			t.Fatal(err)
		}
		slices.Reverse(list)
		if other, _, err := solve(list); err != nil || !bytes.Equal(model, other) {
			t.Fatalf("another order gives another model: %v", err)
		}
		slices.Reverse(list)
	}
	here := func(s *sketch) normal.Solution {
		p := planOf(t, s.plan)
		if err := p.Restore(s.sums, s.dim); err != nil {
			t.Fatal(err)
		}
		return p.Here()
	}
	last := list[len(list)-1]
	if at := here(last); !bytes.Equal(planOf(t, model).id, last.plan) || at.Gap > enough*at.Objective || len(list) < 3 {
		t.Errorf("after %d passes: %s", len(list), said)
	}
	// Pretend that the first whole step went up: its sums are those of worse examples.
	flipped := slices.Clone(xs)
	for i := range flipped {
		flipped[i].Y = -flipped[i].Y
	}
	_, whole, err := solve(list[:1])
	if err != nil {
		t.Fatal(err)
	}
	up := sketchOf(t, planOf(t, list[1].plan), flipped)
	half, said, err := solve([]*sketch{up, list[0]})
	if err != nil || !strings.HasSuffix(whole, "step 1") || !strings.HasSuffix(said, "step 0.5") {
		t.Fatalf("%v: %s, then %s", err, whole, said)
	}
	if after, before := here(sketchOf(t, planOf(t, half), xs)), here(list[0]); !(after.Objective < before.Objective) {
		t.Errorf("half a step goes from %v to %v", before.Objective, after.Objective)
	}
	if _, _, err := solve([]*sketch{list[0], sketchOf(t, planOf(t, list[1].plan), xs[1:])}); err == nil {
		t.Error("passes over different records are taken together")
	}
}

// TestSummer: sums of records are those of their examples, to the bit, with the weights
// in their headers, and records that are not examples are counted.
func TestSummer(t *testing.T) {
	data, xs := version(t, trainer.Options{Set: map[string]string{"features": "64"}, Seed: 1}, 400)
	p := planOf(t, data)
	s, err := newSummer(p)
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
	var good []stream.Example
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
			good = append(good, x)
		}
	}
	_ = s.add(t.Context(), decode, &stream.Record{})
	got, want := s.sketch(), sketchOf(t, p, good)
	if got.sums.Len() != 286 || got.classes[0]+got.classes[1] != 286 || got.unlabelled != 57 || got.dead != 57 || got.tombstones != 1 {
		t.Errorf("%v", got)
	}
	want.unlabelled, want.dead, want.tombstones = 57, 57, 1
	a, err := got.encode()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := want.encode(); err != nil || !bytes.Equal(a, b) || got.dim != 2 {
		t.Errorf("the sums are others: %v", err)
	}
}

// FuzzSketch: no file makes decoding or solving panic.
func FuzzSketch(f *testing.F) {
	for _, hinge := range []bool{false, true} {
		s := &sketch{plan: []byte("x"), classes: []uint64{1, 0}, dim: 1}
		var err error
		if s.sums, err = normal.New(2, 1, hinge); err != nil {
			f.Fatal(err)
		}
		data, err := state.Append(nil, s.fields)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = append([]byte(magic), data...)
		s := new(sketch)
		if s.decode(binary.LittleEndian.AppendUint64(data, xxhash.Sum64(data))) != nil {
			return
		}
		_ = s.String()
		_, _, _ = solve([]*sketch{s, s})
		_ = s.merge(s)
	})
}
