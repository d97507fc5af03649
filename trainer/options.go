package trainer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/internal/spell"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// Options say what to learn and how: everything besides the stream that the state
// depends on. A state continues only under the options it began with.
type Options struct {
	// Learner is the registered name of the learner; empty is adaptive.
	// [registry.Register] adds your own.
	Learner string
	// Preset is a preset of the learner; empty is "default".
	Preset string
	// Set overrides options of the preset, by name. streamsvm learners NAME lists
	// them.
	Set map[string]string
	// Task is what to predict; empty is the learner's default.
	Task algos.Task
	// Seed determines all randomness.
	Seed uint64
	// Tune says whether options that are not given are chosen on the first examples.
	Tune Tune
	// Scale is the scaling of features.
	Scale Scale
	// Span is the approximate number of latest examples that the means of ScaleRunning
	// are taken over; 0 is 1000.
	Span int
	// ClassWeight is the weight of each class, a factor on the weights of its
	// examples: "auto" (also the zero value) weighs rare classes more, "none" does
	// not, and a list such as "fraud=10,ok=1" gives weights by label, 1 to labels
	// not listed. It does not affect measures.
	ClassWeight string
	// Costs are the costs of predicting another label than the true one, by true label:
	// a list such as "fraud=10,ok=1", 1 for labels not listed, or with two labels
	// "fn=10,fp=1". Subscribers then predict the label with the least expected cost.
	Costs string
	// HashDim, if positive, hashes all features into HashDim features, at most
	// math.MaxInt32.
	HashDim int
	// Warmup is the number of first examples used for scaling and tuning before
	// learning begins; 0 is 4000 with tuning, else 1000 with scaling. They are
	// learned from like all others, but not scored. If the stream is shorter, its
	// first two thirds are the warm-up.
	Warmup int
	// Window is the number of examples in windowed measures; 0 is 1000.
	Window int
	// MaxClasses bounds the number of classes of a stream whose decoder lists more
	// than two labels; 3 to algos.MaxClasses, 0 is DefaultMaxClasses.
	MaxClasses int
	// Gate, if not empty, chooses a champion among snapshots of the model: "auto",
	// or clauses such as
	//
	//	brier <= champion + 0.002; ece <= 0.05; examples >= 5000
	//
	// It does not affect learning. It needs an import of package contrib/gate. See
	// docs/gate.md.
	Gate string
	// VersionEvery is the number of labelled examples between published versions, for
	// the default learner, which publishes the model that predicts best over that time. 0
	// stands for 2,500. The state depends on it.
	VersionEvery int
	// PublishEvery, if not 0, also measures the predictions that a subscriber would get
	// if a version were published every PublishEvery records: each example is predicted
	// by the latest version when it arrives, and scored when its label comes. It does
	// not affect learning. If it is 0, a run that publishes measures its real versions.
	PublishEvery uint64
	// Join says where to find labels that do not come with the examples.
	Join Join
	// Delay makes the label of each example arrive only after Delay more examples,
	// up to MaxJoinWindow, to measure the effect of late labels. It cannot be
	// combined with Join.
	Delay int
	// Labels, if not nil, hides the label of every example for which it returns
	// false; i counts examples from 0. See [Options.KeepLabels].
	Labels func(i uint64) bool
	// LabelsName identifies Labels in checkpoints: a state continues only under the
	// same name.
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

// DefaultMaxClasses is the default of Options.MaxClasses.
const DefaultMaxClasses = engine.DefaultMaxClasses

// Scale is a way to scale features.
type Scale string

// The scales.
const (
	ScaleAuto     Scale = "auto"     // one of the others, chosen on the first examples, with asinh for heavy tails; also the zero value
	ScaleNone     Scale = "none"     // x unchanged
	ScaleUnit     Scale = "unit"     // x / ‖x‖, example by example
	ScaleCommon   Scale = "common"   // x / the largest |value| of all features, clipped at ±2
	ScaleMinMax   Scale = "minmax"   // each feature from its range to [0,1], clipped one range beyond it
	ScaleStandard Scale = "standard" // each feature to mean 0 and standard deviation 1, clipped at ±6
	ScaleRunning  Scale = "running"  // each feature minus its mean over the last Span examples, clipped at ±6
)

// Join says that labels come later, in records of their own, and are joined with the examples by a
// key. The zero value means that labels come with the examples.
//
// An example without a label waits, and later examples wait behind it, until its label
// arrives or the label of an example more than Window later does. Once it has waited longer than
// most others, it waits alone. A label that arrives first waits for its example until a label more
// than Window later has met its own. Beyond Window, at most 64 MiB of examples and 524,288 labels
// wait. So what is learned from does not depend on how the two topics interleave, nor does the
// order if labels come after their examples. The exception are learners that adapt to their own
// prediction errors ([algos.PendingPredictor]): like the measures, they use the prediction made
// when the example arrived, which does depend on it.
type Join struct {
	// Topic holds the labels. If it is empty and By is not, labels come in later records of the
	// topics of examples, as when a row of a table gets its label: a record with a label is a label,
	// any other an example.
	Topic string
	// Window is from 1 to MaxJoinWindow.
	Window int
	// By says where records have the key: "key" (with Topic also the zero value) is the record
	// key, or the field id if a record has no key; "header:NAME" is a header; anything
	// else is a field, with dots for nested objects, such as order.id. If labels have the
	// key elsewhere, give both with = between them: order_id=id, order_id=key.
	By string
	// Field is the field of the label in Topic; see [codec.NewLabels] for
	// the default.
	Field string
	// Missing is the label, as text, of an example whose own has not come by then, or when the
	// stream has ended, as where only clicks or failures are reported; empty: it has none. With
	// it, examples are learned from up to Window late.
	Missing string
}

// used reports whether labels are joined with examples.
func (j Join) used() bool { return engine.Join(j).Used() }

// Codec sets the options of codecs that j determines.
func (j Join) Codec(o *codec.Options) {
	if !j.used() {
		return
	}
	examples, labels := engine.Join(j).Keys()
	o.Unlabelled = o.Unlabelled || j.Topic != ""
	o.LaterLabels, o.ID, o.LabelsID = j.Topic == "", examples.Field, labels.Field
	if j.Field != "" {
		o.LabelsField = j.Field
	}
	o.MissingLabel = j.Missing
}

// MaxJoinWindow bounds Join.Window.
const MaxJoinWindow = 1 << 24

// OptionError says which field of Options or Job is invalid, and why.
type OptionError struct {
	Field string // for example "Learner"
	Key   string // of Set; otherwise empty
	Err   error
}

func (e *OptionError) Error() string {
	if e.Key != "" {
		return fmt.Sprintf("trainer: %s[%q]: %v", e.Field, e.Key, e.Err)
	}
	return fmt.Sprintf("trainer: %s: %v", e.Field, e.Err)
}

func (e *OptionError) Unwrap() error { return e.Err }

// Validate returns nil, or an *OptionError for each invalid field, joined.
func (o Options) Validate() error {
	_, err := o.config()
	return err
}

// config returns the configuration of the engine.
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
	if o.Join.By == "key" && o.Join.Topic != "" {
		o.Join.By = "" // states do not tell them apart
	}
	task := cmp.Or(o.Task, spec.Tasks[0])
	if !slices.Contains(spec.Tasks, task) {
		bad("Task", "", fmt.Errorf("learner %s does not do task %s", name, task))
	}
	if o.Gate != "" {
		if why := engine.CheckGate(o.Gate, task == algos.Regress); why != nil {
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
	}{{"HashDim", o.HashDim}, {"Span", o.Span}, {"Warmup", o.Warmup}, {"Window", o.Window}, {"MaxClasses", o.MaxClasses}, {"VersionEvery", o.VersionEvery}} {
		if f.n < 0 {
			bad(f.field, "", fmt.Errorf("%d is negative", f.n))
		}
	}
	if o.HashDim > math.MaxInt32 {
		bad("HashDim", "", fmt.Errorf("%d, want at most %d", o.HashDim, math.MaxInt32))
	}
	if o.MaxClasses > 0 && o.MaxClasses < 3 || o.MaxClasses > algos.MaxClasses {
		bad("MaxClasses", "", fmt.Errorf("%d, want 3 to %d", o.MaxClasses, algos.MaxClasses))
	}
	if why := engine.Join(o.Join).Validate(); why != nil {
		bad("Join", "", why)
	}
	if o.Delay < 0 || o.Delay > MaxJoinWindow {
		bad("Delay", "", fmt.Errorf("%d, want 0 to %d", o.Delay, MaxJoinWindow))
	} else if o.Delay > 0 && o.Join.used() {
		bad("Delay", "", errors.New("it cannot be combined with Join"))
	}
	if _, _, why := engine.ParseClassWeights(o.ClassWeight); why != nil {
		bad("ClassWeight", "", why)
	}
	if _, why := engine.ParseCosts(o.Costs); why != nil {
		bad("Costs", "", why)
	} else if o.Costs != "" && task == algos.Regress {
		bad("Costs", "", errors.New("a regression has no classes"))
	}
	return engine.Config{
		Spec: spec, Preset: preset, Options: o.Set, Task: task, Seed: o.Seed,
		Scale: scale, Span: cmp.Or(o.Span, prep.DefaultSpan), HashDim: o.HashDim, ClassWeight: cmp.Or(o.ClassWeight, "auto"), Costs: o.Costs, Warmup: o.Warmup, Window: o.Window,
		Tune:       tune == TuneOn || tune == TuneAuto && preset != "paper",
		MaxClasses: o.MaxClasses, Gate: o.Gate, VersionEvery: o.VersionEvery, PublishEvery: o.PublishEvery, Labels: o.Labels, Kept: o.LabelsName, Join: engine.Join(o.Join), Delay: o.Delay,
	}, err
}

// noDrift says what to use for a stream that changes, when a learner lacks the preset
// drift.
func noDrift() string {
	var have []string
	for _, s := range registry.All {
		if _, ok := s.Presets["drift"]; ok {
			have = append(have, s.Name)
		}
	}
	return ": for a stream that changes, use learner adaptive, which needs no preset, or one that has it: " + strings.Join(have, ", ")
}

// engine returns an engine before the first record, for examples with this signature.
func (o Options) engine(s codec.Signature) (*engine.Engine, error) {
	cfg, err := o.config()
	if err != nil {
		return nil, err
	}
	cfg.Signature = s
	e, err := engine.NewEngine(cfg)
	if err != nil {
		return nil, &OptionError{"Options", "", err}
	}
	return e, nil
}

// Fits returns an error if a job with these options and d, which may be nil, cannot continue from
// the checkpoint: a *StateError if it was made with other options or by another version
// of this package. A checkpoint without records fits all options. What d would infer from
// records is that of the checkpoint.
func (o Options) Fits(snap *checkpoint.Snapshot, d *codec.Discovery) error {
	e, err := o.engine(codec.Signature{Schema: meta(snap, engine.MetaSchema)})
	if err != nil || snap.Header.Examples == 0 {
		return err
	}
	if err := sameEvents(snap, d); err != nil {
		return err
	}
	return restore(e, snap)
}

// sameEvents returns an error if the checkpoint was made with other options for events.
func sameEvents(snap *checkpoint.Snapshot, d *codec.Discovery) error {
	if d == nil || meta(snap, engine.MetaSchema) == "" {
		return nil
	}
	if was, now := meta(snap, metaGiven), d.Given(); was != now {
		return &StateError{fmt.Errorf("checkpoint of %d examples: %w", snap.Header.Examples, &engine.MismatchError{Setting: "events", Was: was, Now: now})}
	}
	return nil
}

// meta returns an entry of a checkpoint's header; "" if there is none, or no checkpoint.
func meta(snap *checkpoint.Snapshot, name string) string {
	if snap != nil {
		for _, kv := range snap.Header.Meta {
			if kv[0] == name {
				return kv[1]
			}
		}
	}
	return ""
}

func restore(e *engine.Engine, snap *checkpoint.Snapshot) error {
	if err := e.Restore(snap); err != nil {
		return &StateError{err}
	}
	return nil
}

// StateError says why a job cannot continue from a checkpoint.
type StateError struct{ Err error }

func (e *StateError) Error() string { return e.Err.Error() }

func (e *StateError) Unwrap() error { return e.Err }
