// Package learnertest runs the conformance suite, package algostest, on many
// learners with options that keep it short.
package learnertest

import (
	"maps"
	"os"
	"testing"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/algostest"
)

// Conformance runs the conformance suite on each of the learners, with every
// preset.
func Conformance(t *testing.T, specs []algos.Spec) {
	for _, spec := range specs {
		for _, preset := range []string{"default", "paper"} {
			t.Run(spec.Name+"/"+preset, func(t *testing.T) {
				options, err := spec.WithPreset(preset, nil)
				if err != nil {
					t.Fatal(err)
				}
				if same, err := spec.WithPreset("default", nil); preset == "paper" && err == nil && maps.Equal(same, options) {
					t.Skip("the presets are the same")
				}
				// As many random features as a user would choose give states of
				// megabytes, which the suite stores hundreds of times, and choosing
				// options on as many labels would take most of its time.
				few := map[string]string{"features": "256", "block": "64", "batch_unlabelled": "64"}
				if preset == "default" {
					few["tuning"] = "100"
				}
				for name, v := range few {
					if spec.Takes(name) && spec.Kind == algos.Features {
						options[name] = v
					}
				}
				opts := []algostest.Option{algostest.With(options)}
				if preset == "default" {
					n, more := liveOptions(spec)
					if spec.Kind == algos.Mixture && os.Getenv("STREAMSVM_LONG") == "" { // it takes longer than all others together
						n, opts = n/2, append(opts, algostest.Examples(300))
						spec.Tasks = spec.Tasks[:1]
					}
					opts = append(opts, algostest.Live(n, more))
				}
				if preset == "paper" {
					// Its regularisation makes a kernel learner a class-mean rule,
					// which gets about 88 % of these moons right.
					opts = append(opts, algostest.Accuracy(.8))
				}
				algostest.Run(t, spec, opts...)
			})
		}
	}
}

// Classes runs the suite with five classes on each of the learners.
func Classes(t *testing.T, specs []algos.Spec) {
	for _, spec := range specs {
		t.Run(spec.Name, func(t *testing.T) {
			options := map[string]string{}
			few := map[string]string{"features": "128", "block": "32", "batch_unlabelled": "32", "tuning": "100"}
			for name, v := range few {
				if spec.Takes(name) && spec.Kind == algos.Features {
					options[name] = v
				}
			}
			algostest.Run(t, spec, algostest.With(options), algostest.Classes(5), algostest.Examples(400), algostest.Accuracy(.85))
		})
	}
}

// liveOptions returns the number of examples for the live-model check, and options
// that bound what the learner holds to a fraction of that, so that it is full for
// most of the stream.
func liveOptions(spec algos.Spec) (int, map[string]string) {
	n, small := 8000, map[string]string{
		"buffer": "2500", "frozen": "2500", "labels": "1000", "max_sample": "2500", "tuning": "100",
	}
	if spec.Kind == algos.Linear {
		// Linear models are close to the concept: the window must be so large that
		// its random content makes less than half a point.
		n, small["buffer"] = 16000, "5000"
	}
	options := map[string]string{}
	for name, v := range small {
		if spec.Takes(name) {
			options[name] = v
		}
	}
	switch spec.Name {
	case "scs":
		// Models of samples that have a quarter exchanged differ by less than half
		// a point if they are large enough.
		n, options["max_sample"] = 24000, "6000"
	case "online":
		// The last iterate of a linear model with three features moves by points at
		// the default rate; the tuner would choose a smaller one.
		options["rate"] = "0.1"
	}
	return n, options
}

// Options checks the options of each of the learners: they are few, every option
// says what it does, and no name has two meanings within a learner.
func Options(t *testing.T, specs []algos.Spec) {
	for _, s := range specs {
		names := map[string]bool{}
		for _, o := range s.Options {
			if o.Doc == "" || len(o.Doc) > 140 {
				t.Errorf("%s: option %s: %d characters: %q", s.Name, o.Name, len(o.Doc), o.Doc)
			}
			for _, name := range []string{o.Name, o.Alias} {
				if names[name] && name != "" || s.Gone[name] != "" {
					t.Errorf("%s: the name %s is taken", s.Name, name)
				}
				names[name] = true
			}
		}
		if n := len(s.Options); n < 1 || n > 8 {
			t.Errorf("%s has %d options; want 8 or fewer. Make those that nobody would set constants: the tag fixed", s.Name, n)
		}
	}
}
