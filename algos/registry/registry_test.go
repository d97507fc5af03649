package registry_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/internal/testkit/alloctest"
	"github.com/streamsvm/streamsvm/internal/testkit/learnertest"
	"github.com/streamsvm/streamsvm/stream"
)

// Every learner passes the conformance suite, in every preset.
func TestConformance(t *testing.T) { learnertest.Conformance(t, registry.All) }

// The suite with five classes.
func TestConformanceOfClasses(t *testing.T) {
	// All others share one wrapper: a learner with a model a class of its own, the
	// default, one that changes with each example and one that keeps a sample are enough.
	asked := []string{"scs", "online"}
	if os.Getenv("STREAMSVM_LONG") != "" {
		asked = append(asked, "adaptive", "sbp")
	}
	var specs []algos.Spec
	for _, spec := range registry.All {
		if slices.Contains(asked, spec.Name) {
			specs = append(specs, spec)
		}
	}
	learnertest.Classes(t, specs)
}

func TestOptions(t *testing.T) { learnertest.Options(t, registry.All) }

func TestLookup(t *testing.T) {
	names := map[string]bool{}
	for _, want := range registry.All {
		got, err := registry.Lookup(want.Name)
		if err != nil || got.Name != want.Name || names[want.Name] {
			t.Errorf("Lookup(%q): %q, %v", want.Name, got.Name, err)
		}
		names[want.Name] = true
	}
	if _, err := registry.Lookup("oracle"); err == nil || !strings.Contains(err.Error(), `"oracle"; there are `+registry.All[0].Name) {
		t.Errorf("an unknown learner: %v", err)
	}
	if _, err := registry.Lookup("katyusha"); err == nil || !strings.Contains(err.Error(), "svrg-sd") {
		t.Errorf("a learner whose models are still read: %v", err)
	}
	if _, err := registry.Lookup("pegasos"); err == nil || !strings.Contains(err.Error(), `"pegasos" has been removed: scs`) {
		t.Errorf("a learner of earlier versions: %v", err)
	}
}

// No input makes a model decoder panic; what it accepts works and keeps its
// bytes.
func FuzzDecodeModel(f *testing.F) {
	for i, spec := range registry.All {
		l, err := spec.New(algos.Env{Seed: 1}, nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(i), algostest.Bytes(f, l.Model()))
		algostest.Feed(f, l, algostest.Moons(20, spec.Tasks[0], 1)...)
		if _, err := l.Finish(f.Context()); err != nil {
			f.Fatal(err)
		}
		f.Add(byte(i), algostest.Bytes(f, l.Model()))
		if m, ok := l.Model().(interface{ Pack() algos.Model }); ok {
			f.Add(byte(i), algostest.Bytes(f, m.Pack()))
		}
	}
	points := []stream.Vec{{}, {Val: []float32{1, 2}}, {Idx: []int32{0, 5000}, Val: []float32{1, -1}}}
	f.Fuzz(func(t *testing.T, which byte, data []byte) {
		spec := registry.All[int(which)%len(registry.All)]
		m, err := decodeModel(t, spec, data)
		if err != nil {
			return
		}
		m.Info()
		m.Decisions(make([]float64, len(points)), points)
		again, err := spec.DecodeModel(algostest.Bytes(t, m))
		if err != nil {
			t.Fatalf("a model that was read cannot be written and read again: %v", err)
		}
		if !bytes.Equal(algostest.Bytes(t, m), algostest.Bytes(t, again)) {
			t.Fatal("the bytes change from one reading to the next")
		}
	})
}

// decodeModel decodes a model and checks what that allocates. Points of kernel
// expansions are packed, with their zeros, 64 at a time: room for these comes on
// top of the bound. A model that is refused may have had that room before. A mixture
// has four expansions, and random features that are drawn anew.
func decodeModel(t *testing.T, spec algos.Spec, data []byte) (algos.Model, error) {
	t.Helper()
	var m algos.Model
	var err error
	got := alloctest.Bytes(func() { m, err = spec.DecodeModel(data) })
	limit := alloctest.Factor*len(data) + alloctest.Free
	if spec.Kind == algos.Kernel || spec.Kind == algos.Mixture {
		const most = 1024 // features of packed points
		points, dim := len(data)/4, most
		if err == nil {
			points, dim = m.Info().Support, min(m.Info().Dim, most)
		}
		expansions := 1
		if spec.Kind == algos.Mixture {
			expansions = 4
			limit += 2 * 4 * 256 * min(dim, 512)
		}
		limit += 4 * dim * (points + 64*expansions)
	}
	if got > uint64(limit) && alloctest.Exact {
		t.Fatalf("%s: %d bytes allocated for %d, the limit is %d", spec.Name, got, len(data), limit)
	}
	return m, err
}
