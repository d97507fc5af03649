package adaptive

import (
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
)

// togetherAs checks that the classes of l, as they are now, published and read back, score xs as
// each class alone does, and that those whose number is below shared compute their inputs together.
func togetherAs(t *testing.T, l algos.Learner, xs []*stream.Example, shared int) {
	t.Helper()
	readBack := func(m algos.Model) (algos.Model, error) {
		data, err := m.(interface {
			AppendBinary(dst []byte) ([]byte, error)
		}).AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		return decodeAny(data)
	}
	present, published := l.Model(), l.(algos.Publisher).Published()
	read, err := readBack(published.(interface{ Pack() algos.Model }).Pack())
	if err != nil {
		t.Fatal(err)
	}
	again, err := readBack(present)
	if err != nil {
		t.Fatal(err)
	}
	parts, _, _ := ovr.Parts(present)
	if m, err := readBack(parts[1]); err == nil {
		t.Errorf("class 1 is read without the points of class 0: %v", m)
	}
	if h := l.(*classes).heads[0]; h.version != nil && h.version.near != nil && h.version.near.points != nil {
		h.version.near.shared = true
		data, err := state.Append(nil, h.versionFields)
		h.version.near.shared = false
		if err != nil {
			t.Fatal(err)
		}
		if err := state.Decode(data, (&Learner{panel: h.panel, experts: h.experts}).versionFields); err == nil {
			t.Error("a version is restored without the points of its neighbours")
		}
	}
	vecs := make([]stream.Vec, len(xs))
	for i, x := range xs {
		vecs[i] = x.X
	}
	for i, m := range []algos.Model{present, again, published, read, read.(interface{ Compile() algos.Model }).Compile()} {
		parts, _, _ := ovr.Parts(m)
		k := len(parts)
		got, alone := make([]float64, k*len(xs)), make([]float64, len(xs))
		m.(algos.Scorer).Scores(got, vecs)
		first := parts[0].(*ensemble)
		for c, p := range parts {
			e := p.(*ensemble)
			if e.inputs == nil || (e.inputs == first.inputs) != (c < shared) {
				t.Errorf("model %d: class %d of %d shares: %v", i, c, k, e.inputs == first.inputs)
			}
			own := e.near != nil && first.near != nil && e.near.points != first.near.points || e.splines != nil && first.splines != nil && e.splines != first.splines
			if c > 0 && own == (c < shared) {
				t.Errorf("model %d: class %d has points or knots of its own: %v", i, c, own)
			}
			e.Decisions(alone, vecs)
			for j, v := range alone {
				if got[j*k+c] != v {
					t.Fatalf("model %d, class %d, example %d: %v, alone %v", i, c, j, got[j*k+c], v)
				}
			}
		}
	}
}
