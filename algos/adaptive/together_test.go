package adaptive

import (
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/ovr"
	"github.com/streamsvm/streamsvm/stream"
)

// togetherAs checks that the classes of l, as they are now, published and read back, score xs as
// each class alone does, and that those whose number is below shared compute their inputs together.
func togetherAs(t *testing.T, l algos.Learner, xs []*stream.Example, shared int) {
	t.Helper()
	published := l.(algos.Publisher).Published()
	data, err := published.(interface{ Pack() algos.Model }).Pack().(interface {
		AppendBinary(dst []byte) ([]byte, error)
	}).AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	read, err := decodeAny(data)
	if err != nil {
		t.Fatal(err)
	}
	present := l.Model()
	data, err = present.(interface {
		AppendBinary(dst []byte) ([]byte, error)
	}).AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := decodeAny(data)
	if err != nil {
		t.Fatal(err)
	}
	parts, _, _ := ovr.Parts(present)
	if data, err = parts[1].(*ensemble).AppendBinary(nil); err != nil {
		t.Fatal(err)
	}
	if m, err := decodeAny(data); err == nil {
		t.Errorf("class 1 is read without the points of class 0: %v", m)
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
