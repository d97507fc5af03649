package registry_test

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/internal/testkit/alloctest"
	"github.com/streamsvm/streamsvm/stream"
)

// Every learner passes the conformance suite, in every preset.
func TestConformance(t *testing.T) {
	for _, spec := range registry.All {
		for _, preset := range []string{"default", "paper"} {
			t.Run(spec.Name+"/"+preset, func(t *testing.T) {
				options, err := spec.WithPreset(preset, nil)
				if err != nil {
					t.Fatal(err)
				}
				if same, err := spec.WithPreset("default", nil); preset == "paper" && err == nil && maps.Equal(same, options) {
					t.Skip("the presets are the same")
				}
				// As many random features as a user would take make states of
				// megabytes, which the suite stores hundreds of times, and
				// choosing options on as many labels takes most of its time.
				few := map[string]string{"features": "256", "block": "64", "batch_unlabelled": "64"}
				if preset == "default" {
					few["tuning"] = "100"
				}
				if spec.Name == "frs3vm" {
					few["tuning"] = "0" // it chooses as tsgs3vm does, by stochastic steps to convergence
				}
				for _, o := range spec.Options {
					if v := few[o.Name]; v != "" && spec.Kind == algos.Features {
						options[o.Name] = v
					}
				}
				opts := []algostest.Option{algostest.With(options)}
				live := preset == "default"
				if live {
					opts = append(opts, algostest.Live(liveOptions(spec)))
				}
				if preset == "paper" {
					// Its regularisation makes a class-mean rule of a kernel
					// learner, which gets these moons about 88 % right.
					opts = append(opts, algostest.Accuracy(.8))
				}
				algostest.Run(t, spec, opts...)
			})
		}
	}
}

// The suite with five classes.
func TestConformanceOfClasses(t *testing.T) {
	// The wrapper is one for all: a learner with heads of its own, the default, one
	// that changes with each example and one that keeps a sample are enough; of
	// the others the engine's tests have each kill and resume with five classes.
	asked := []string{"scs", "online"}
	if os.Getenv("STREAMSVM_LONG") != "" {
		asked = append(asked, "adaptive", "smo", "sbp")
	}
	for _, spec := range registry.All {
		if !slices.Contains(asked, spec.Name) {
			continue
		}
		t.Run(spec.Name, func(t *testing.T) {
			options := map[string]string{}
			few := map[string]string{"features": "128", "block": "32", "batch_unlabelled": "32", "tuning": "100"}
			if spec.Name == "frs3vm" {
				few["tuning"] = "0"
			}
			for _, o := range spec.Options {
				if v := few[o.Name]; v != "" && spec.Kind == algos.Features {
					options[o.Name] = v
				}
			}
			algostest.Run(t, spec, algostest.With(options), algostest.Classes(5), algostest.Examples(400), algostest.Accuracy(.85))
		})
	}
}

// liveOptions returns how many examples a learner's live model is looked at on,
// and bounds on what it holds that are a fraction of this, so that most of the
// stream comes when it is full.
func liveOptions(spec algos.Spec) (int, map[string]string) {
	n, small := 8000, map[string]string{
		"buffer": "2500", "frozen": "2500", "labels": "1000", "max_sample": "2500", "tuning": "100",
	}
	if spec.Kind == algos.Linear {
		// These are near the concept: the window is to be large enough that what
		// it happens to hold makes less than half a point.
		n, small["buffer"] = 16000, "5000"
	}
	options := map[string]string{}
	for _, o := range spec.Options {
		if v := small[o.Name]; v != "" {
			options[o.Name] = v
		}
	}
	switch spec.Name {
	case "pegasos", "perceptron":
		// The model is that of an eighth of the budget, which is to be large
		// enough for what it happens to hold to make less than half a point.
		n, options["budget"] = 40000, "5000"
	case "scs":
		// Models of samples that have a quarter exchanged differ by less than half
		// a point if they are large enough.
		n, options["max_sample"] = 24000, "6000"
	case "online":
		// The last iterate of a linear model in three features moves by points
		// with the default rate; the tuner would take a smaller one.
		options["rate"] = "0.1"
	case "frs3vm":
		// With c, lambda falls as 1/n, and steps of 256 labels at a time never
		// catch up with that before Finish.
		options["lambda"] = "0.01"
	}
	return n, options
}

// TestOptions: what a user sees first is short, every option says what it does,
// and no name has two meanings within a learner.
func TestOptions(t *testing.T) {
	for _, s := range registry.All {
		names, first := map[string]bool{}, 0
		for _, o := range s.Options {
			if o.Group == algos.Main {
				first++
			}
			if !slices.Contains(algos.Groups, o.Group) || o.Doc == "" || len(o.Doc) > 140 {
				t.Errorf("%s: option %s of group %q: %d characters: %q", s.Name, o.Name, o.Group, len(o.Doc), o.Doc)
			}
			for _, name := range []string{o.Name, o.Alias} {
				if names[name] && name != "" || s.Gone[name] != "" {
					t.Errorf("%s: the name %s is taken", s.Name, name)
				}
				names[name] = true
			}
		}
		if first < 1 || first > 9 {
			t.Errorf("%s shows %d options first", s.Name, first)
		}
	}
}

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
