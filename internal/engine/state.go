package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/internal/columns"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/internal/prep"
	"github.com/streamsvm/streamsvm/internal/tune"
)

// encode returns the engine's own state and the learner's.
func (e *Engine) encode() (own, learner []byte, err error) {
	own, err = state.Append(nil, e.fields)
	if err == nil && e.learner != nil {
		learner, err = e.learner.AppendBinary(nil)
	}
	return own, learner, err
}

// decode restores an engine that was made with the same configuration.
func (e *Engine) decode(own, learner []byte) error {
	if err := state.Decode(own, e.fields); err != nil {
		return err
	}
	if !e.started {
		e.learner = nil
		return nil
	}
	l, err := e.cfg.Spec.New(e.env(), e.options)
	if err != nil {
		return err
	}
	// The checksum of the checkpoint has been verified, so the bytes are what some
	// version wrote: an error means that this version cannot read them.
	if err := l.UnmarshalBinary(learner); err != nil {
		return fmt.Errorf("%w (learner %s: %w)", ErrOldState, e.cfg.Spec.Name, err)
	}
	e.learner = l
	return nil
}

func (e *Engine) fields(f *state.Fields) {
	f.Group("config", e.cfg.fields)
	c := &e.counts
	for _, v := range []struct {
		name string
		n    *uint64
	}{
		{"consumed", &c.Consumed}, {"labelled", &c.Labelled}, {"unlabelled", &c.Unlabelled},
		{"learned", &c.Learned}, {"sampled_out", &c.SampledOut}, {"dead", &c.Dead},
		{"pending", &c.Pending}, {"steps", &e.steps},
	} {
		f.Uint64(v.name, v.n)
	}
	// The offsets are part of the state that is hashed: two runs are equal only if
	// they have consumed the same records.
	e.positions()
	columns.Offsets(f, &e.offsets)
	f.Int("dim", &e.admission.dim)
	if e.version2 {
		e.admission.index = e.admission.dim
	} else {
		f.Int("index", &e.admission.index)
	}
	f.Bool("started", &e.started)
	f.Bool("finished", &e.finished)
	pipeline.Options(f, &e.options)
	// During the warm-up the examples themselves are the state; afterwards they
	// have been learned from, and this is empty.
	columns.Examples(f, "warm", &e.warm)
	columns.Examples(f, "block", &e.block) // empty in every snapshot
	if f.Decoding() {
		e.preds = slices.Repeat([]prediction{noPrediction}, len(e.block))
	}
	f.List("tuned", len(e.tuned), 4, func(n int) { e.tuned = make([]tune.Row, n) }, func(f *state.Fields, i int) {
		e.tuned[i].Fields(f)
	})
	if f.Decoding() {
		e.transform = new(prep.Transform)
	}
	if e.started {
		f.Group("transform", e.transform.Fields)
	}
	// Most of what follows exists only with some settings, or was added in later
	// versions. Such fields are stored only when there is something to store, which
	// keeps the bytes, and so the hashes, of all other states. The order must not
	// change.
	e.classFields(f)
	f.Group("prequential", e.preq.Fields)
	f.Group("curve", e.curve.Fields)
	e.calibrationFields(f)
	e.moreFields(f)
	e.monitorFields(f)
	e.weights.fields(f, e.numClasses())
	e.siftFields(f)
	// In a state only if something has been clipped.
	if e.started && (f.Next("clipped") || !f.Decoding() && e.transform.Clipped().Values > 0) {
		f.Group("clipped", e.transform.ClippedFields)
	}
	e.promotionFields(f)
	if f.Decoding() && f.Err() == nil {
		e.clipsLogged = len(e.transform.Clipped().Features)
	}
}

// fields describes the configuration. When reading, each value must equal the one
// that the engine was made with: a state continues only under its own
// configuration.
func (c *Config) fields(f *state.Fields) {
	// The default of warmup depends on tune, which is compared later. If both
	// differ, tune explains it better, so this error waits until the end.
	var warmup error
	same := func(name, want string) {
		got := want
		f.String(name, &got)
		switch other := (&MismatchError{name, got, want}); {
		case !f.Decoding() || f.Err() != nil || got == want:
		case name == "warmup":
			warmup = other
		default:
			f.Fail(name, other)
		}
	}
	same("learner", c.Spec.Name)
	same("preset", c.Preset)
	same("task", string(c.Task))
	same("seed", fmt.Sprint(c.Seed))
	same("scale", c.Scale)
	if c.Scale == prep.Running {
		same("span", fmt.Sprint(c.Span))
	}
	same("hash_dim", fmt.Sprint(c.HashDim))
	if there := f.Next("class_weight"); there || !f.Decoding() && c.ClassWeight != "auto" {
		same("class_weight", c.ClassWeight)
	} else if f.Decoding() && c.ClassWeight != "auto" {
		f.Fail("class_weight", &MismatchError{"class_weight", "auto", c.ClassWeight})
	}
	same("warmup", fmt.Sprint(c.Warmup))
	same("tune", fmt.Sprint(c.Tune))
	same("window", fmt.Sprint(c.Window))
	given := ""
	for _, k := range slices.Sorted(maps.Keys(c.Options)) {
		given += k + "=" + c.Options[k] + " "
	}
	c.sameOptions(f, given)
	if c.Signature.Schema != "" || f.Next("schema") {
		same("schema", c.Signature.Schema)
	}
	f.Fail("warmup", warmup)
}

// sameOptions describes the learner's options that were set; given are the ones set now.
// A state may hold options that have become constants since it was written. It can
// continue if they had the values of the constants.
func (c *Config) sameOptions(f *state.Fields, given string) {
	was := given
	if f.String("set", &was); !f.Decoding() || f.Err() != nil || was == given {
		return
	}
	kept := ""
	for option := range strings.FieldsSeq(was) {
		name, old, _ := strings.Cut(option, "=")
		value, fixed := c.Spec.Fixed(c.Preset, name)
		if _, still := c.Options[name]; !fixed || still {
			kept += option + " "
		} else if old != value {
			f.Fail("set", fmt.Errorf("the checkpoint was made with %s, which can no longer be set: it is %s now. Begin again with another checkpoint, or continue with the version that wrote this one", option, value))
			return
		}
	}
	if kept != given {
		f.Fail("set", &MismatchError{"set", was, given})
	}
}
