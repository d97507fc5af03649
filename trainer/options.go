package trainer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/compare"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/internal/spell"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// Options say what is learned, and how: all that a state depends on besides
// the stream. A state goes on only under the options that it began with.
type Options struct {
	// Learner is the registered name of the learner; empty is adaptive. One of your
	// own comes in by [registry.Register].
	Learner string
	// Preset is a preset of the learner; empty is "default".
	Preset string
	// Set gives values to options of the learner, in addition to those of the preset.
	// streamsvm learners NAME lists them.
	Set map[string]string
	// Task is what to predict; empty is what the learner does first.
	Task algos.Task
	// Seed determines all randomness.
	Seed uint64
	// Tune says whether options that are not given are chosen on the first
	// examples.
	Tune Tune
	// Scale is the scaling of features.
	Scale Scale
	// Span is about how many examples the means of ScaleRunning go back; 0 is
	// 1000.
	Span int
	// ClassWeight says how much the examples of each class count, besides their own
	// weights: "auto", also the zero value, lets those of a rare class count more;
	// "none" does not; a list such as "fraud=10,ok=1" gives weights to labels as the
	// data have them, to others 1. Measures are not changed by it.
	ClassWeight string
	// HashDim, if positive, hashes all features into so many.
	HashDim int
	// Warmup is the number of first examples that scaling and tuning look at
	// before learning begins; 0 is 4000 with tuning, else 1000 with scaling. They
	// are learned from like all others, but not scored. Of a stream that ends
	// before, the first two thirds are the warm-up.
	Warmup int
	// Window is the number of examples in windowed measures; 0 is 1000.
	Window int
	// MaxClasses is the most classes of a stream that has more than two, as the
	// labels of the decoder say: from 3 on, 0 is DefaultMaxClasses.
	MaxClasses int
	// Gate, if not empty, chooses a champion among the models as they are at times:
	// "auto", or clauses such as
	//
	//	brier <= champion + 0.002; ece <= 0.05; examples >= 5000
	//
	// It has no influence on what is learned. See docs/gate.md.
	Gate string
	// Join says where labels come from that do not come with the examples.
	Join Join
	// Delay, to find out what late labels cost, lets the label of each example
	// come only when so many more examples have: up to MaxJoinWindow. It cannot be
	// combined with Join.
	Delay int
	// Labels, if not nil, hides the label of every example for which it returns
	// false; i counts the examples from 0. See [Options.KeepLabels].
	Labels func(i uint64) bool
	// LabelsName is written to checkpoints in place of Labels: a state goes on
	// only under the same name.
	LabelsName string
}

// Tune says when options are tuned.
type Tune string

// When options are tuned.
const (
	TuneAuto Tune = "auto" // with every preset but "paper"; also the zero value
	TuneOn   Tune = "on"
	TuneOff  Tune = "off"
)

// DefaultMaxClasses is that of Options.MaxClasses.
const DefaultMaxClasses = engine.DefaultMaxClasses

// Scale is a way to scale features.
type Scale string

// The scales.
const (
	ScaleAuto     Scale = "auto"     // one of the others, by the first examples; also the zero value
	ScaleNone     Scale = "none"     // x as it is
	ScaleUnit     Scale = "unit"     // x / ‖x‖, for each example by itself
	ScaleCommon   Scale = "common"   // x / the largest |value| of all features, clipped at ±2
	ScaleMinMax   Scale = "minmax"   // each feature from its range to [0,1], clipped one range beyond
	ScaleStandard Scale = "standard" // each feature to mean 0 and standard deviation 1, clipped at ±6
	ScaleRunning  Scale = "running"  // each feature less its mean over the last Span examples, clipped at ±6
)

// Join says that labels come on a topic of their own, and are joined with the
// examples by the keys of the records, or by their ids where they have no key.
// The zero value says that they come with the examples.
//
// An example without a label waits, and those behind it with it, until its
// label has come or Window more examples have. A label that comes first waits
// for its example until Window more labels have come. So what is learned does not
// depend on how the two topics interleave, but for learners that judge themselves
// by what they said when an example came ([algos.Foreteller]). What is measured
// always is what was said then, and does.
type Join struct {
	// Topic holds the labels.
	Topic string
	// Window is from 1 to MaxJoinWindow.
	Window int
}

// MaxJoinWindow bounds Join.Window.
const MaxJoinWindow = 1 << 24

// OptionError says which field of Options or Job cannot be used, and why.
type OptionError struct {
	Field string // such as "Learner"
	Key   string // of Set; else empty
	Err   error
}

func (e *OptionError) Error() string {
	if e.Key != "" {
		return fmt.Sprintf("trainer: %s[%q]: %v", e.Field, e.Key, e.Err)
	}
	return fmt.Sprintf("trainer: %s: %v", e.Field, e.Err)
}

func (e *OptionError) Unwrap() error { return e.Err }

// Validate returns an *OptionError for each field that cannot be used, joined,
// or nil.
func (o Options) Validate() error {
	_, err := o.config()
	return err
}

// config returns what the engine is made from.
func (o Options) config() (cfg engine.Config, err error) {
	bad := func(field, key string, why error) { err = errors.Join(err, &OptionError{field, key, why}) }
	name := cmp.Or(o.Learner, "adaptive")
	spec, lookup := registry.Lookup(name)
	if lookup != nil {
		bad("Learner", "", lookup)
		return cfg, err
	}
	preset := cmp.Or(o.Preset, "default")
	if _, ok := spec.Presets[preset]; !ok {
		names := slices.Collect(maps.Keys(spec.Presets))
		advice := spell.DidYouMean(preset, names)
		if preset == "drift" {
			advice = noDrift()
		}
		bad("Preset", "", fmt.Errorf("learner %s has no preset %q%s", name, preset, advice))
	}
	for _, key := range slices.Sorted(maps.Keys(o.Set)) {
		one := map[string]string{key: o.Set[key]}
		if why := cmp.Or(spec.Settable(preset, one), spec.Check(one)); why != nil {
			bad("Set", key, why)
		}
	}
	if err == nil {
		if _, why := spec.WithPreset(preset, o.Set); why != nil {
			bad("Set", "", why)
		}
	}
	task := cmp.Or(o.Task, spec.Tasks[0])
	if !slices.Contains(spec.Tasks, task) {
		bad("Task", "", fmt.Errorf("learner %s does not do task %s", name, task))
	}
	if o.Gate != "" {
		if _, why := compare.ParseRule(o.Gate, task == algos.Regress, false); why != nil {
			bad("Gate", "", why)
		}
	}
	tune := cmp.Or(o.Tune, TuneAuto)
	if !slices.Contains([]Tune{TuneAuto, TuneOn, TuneOff}, tune) {
		bad("Tune", "", fmt.Errorf("%q is not one of auto, on, off", tune))
	}
	scale := cmp.Or(string(o.Scale), prep.Auto)
	if !slices.Contains(prep.Scales(), scale) {
		bad("Scale", "", fmt.Errorf("%q is not one of %s", scale, strings.Join(prep.Scales(), ", ")))
	}
	for _, f := range []struct {
		field string
		n     int
	}{{"HashDim", o.HashDim}, {"Span", o.Span}, {"Warmup", o.Warmup}, {"Window", o.Window}, {"MaxClasses", o.MaxClasses}} {
		if f.n < 0 {
			bad(f.field, "", fmt.Errorf("%d is negative", f.n))
		}
	}
	if o.Delay < 0 || o.Delay > MaxJoinWindow {
		bad("Delay", "", fmt.Errorf("%d, want 0 to %d", o.Delay, MaxJoinWindow))
	} else if o.Delay > 0 && o.Join.Topic != "" {
		bad("Delay", "", errors.New("labels are joined already, and come when they come"))
	}
	if _, _, why := engine.ParseClassWeights(o.ClassWeight); why != nil {
		bad("ClassWeight", "", why)
	}
	return engine.Config{
		Spec: spec, Preset: preset, Options: o.Set, Task: task, Seed: o.Seed,
		Scale: scale, Span: cmp.Or(o.Span, prep.DefaultSpan), HashDim: o.HashDim, ClassWeight: cmp.Or(o.ClassWeight, "auto"), Warmup: o.Warmup, Window: o.Window,
		Tune:       tune == TuneOn || tune == TuneAuto && preset != "paper",
		MaxClasses: o.MaxClasses, Gate: o.Gate, Labels: o.Labels, Kept: o.LabelsName, Join: engine.Join(o.Join), Delay: o.Delay,
	}, err
}

// noDrift says what to use for a stream that changes with a learner that lacks the
// preset drift.
func noDrift() string {
	var have []string
	for _, s := range registry.All {
		if _, ok := s.Presets["drift"]; ok {
			have = append(have, s.Name)
		}
	}
	return ": for a stream that changes, use learner adaptive, which needs no preset, or one that has it: " + strings.Join(have, ", ")
}

// engine returns an engine before the first record, of examples that come through
// dec, or nil.
func (o Options) engine(dec stream.Decoder) (*engine.Engine, error) {
	cfg, err := o.config()
	if err != nil {
		return nil, err
	}
	cfg.Signature = codec.SignatureOf(dec)
	e, err := engine.NewEngine(cfg)
	if err != nil {
		return nil, &OptionError{"Options", "", err}
	}
	return e, nil
}

// Fits returns an error if a job with these options cannot go on from the
// checkpoint: a *StateError if it was made with others, or by another version
// of this package. One of no records fits all options.
func (o Options) Fits(snap *checkpoint.Snapshot) error {
	e, err := o.engine(nil)
	if err != nil || snap.Header.Examples == 0 {
		return err
	}
	return restore(e, snap)
}

func restore(e *engine.Engine, snap *checkpoint.Snapshot) error {
	if err := e.Restore(snap); err != nil {
		return &StateError{err}
	}
	return nil
}

// StateError says why a job cannot go on from a checkpoint.
type StateError struct{ Err error }

func (e *StateError) Error() string { return e.Err.Error() }

func (e *StateError) Unwrap() error { return e.Err }
