package algos

import (
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"

	"github.com/streamsvm/streamsvm/internal/spell"
)

// Spec registers a learner.
type Spec struct {
	SpecInfo
	// Options documents every option, in the order of the options struct.
	Options []Option
	// New makes a learner. options maps names of options to values as text; the
	// others have their defaults.
	New func(env Env, options map[string]string) (Learner, error)
	// DecodeModel decodes what AppendBinary of this learner's models wrote. It
	// returns an error for any other input, and never panics.
	DecodeModel func(data []byte) (Model, error)
	// Check returns the error that New would return for the options.
	Check func(options map[string]string) error
}

// SpecInfo is the hand-written part of a Spec.
type SpecInfo struct {
	Name string
	// Summary says in one line what the learner is, When when to use it.
	Summary, When string
	// Paper names the publication and the section implemented.
	Paper string
	Kind  Kind
	// OwnScale says that the learner scales its inputs itself and wants them raw.
	OwnScale bool
	// Classes says that the learner supports more than two classes itself. For
	// others, one-vs-rest is used.
	Classes bool
	// Tasks are the supported tasks; the first is the default. Empty stands for
	// Classify.
	Tasks []Task
	// Presets maps a preset's name to the options it sets. "default" and
	// "paper" always exist in a Spec.
	Presets map[string]map[string]string
	// Gone maps options of earlier versions to what replaces them, or why nothing
	// does.
	Gone map[string]string
}

// Define makes the Spec of a learner whose options are a struct O with the tags of
// Option. validate may be nil; it checks what ranges cannot express.
func Define[O any](info SpecInfo, validate func(*O) error, make func(Env, O) (Learner, error), decode func([]byte) (Model, error)) Spec {
	docs := describe(reflect.TypeFor[O](), Main)
	if info.Presets == nil {
		info.Presets = map[string]map[string]string{}
	}
	for _, name := range []string{"default", "paper"} {
		if info.Presets[name] == nil {
			info.Presets[name] = map[string]string{}
		}
	}
	if len(info.Tasks) == 0 {
		info.Tasks = []Task{Classify}
	}
	parse := func(given map[string]string) (O, error) {
		var o O
		given, err := rename(docs, given)
		for _, name := range slices.Sorted(maps.Keys(given)) {
			if advice, ok := info.Gone[name]; ok && err == nil {
				err = fmt.Errorf("there is no option %s any more: %s", name, advice)
			}
		}
		if err == nil {
			err = setOptions(&o, docs, given)
		}
		if err == nil && validate != nil {
			err = validate(&o)
		}
		if err != nil {
			err = fmt.Errorf("learner %s: %w", info.Name, err)
		}
		return o, err
	}
	return Spec{
		SpecInfo: info, Options: docs,
		New: func(env Env, options map[string]string) (Learner, error) {
			o, err := parse(options)
			if err != nil {
				return nil, err
			}
			if env.Classes > 2 && !info.Classes {
				return nil, fmt.Errorf("learner %s supports two classes, not %d", info.Name, env.Classes)
			}
			if env.Log == nil {
				env.Log = slog.New(slog.DiscardHandler)
			}
			if env.Task == "" {
				env.Task = info.Tasks[0]
			}
			return make(env, o)
		},
		Check:       func(options map[string]string) error { _, err := parse(options); return err },
		DecodeModel: decode,
	}
}

// WithPreset returns the options of the named preset overridden by given, aliases
// replaced by names.
func (s Spec) WithPreset(preset string, given map[string]string) (map[string]string, error) {
	if preset == "" {
		preset = "default"
	}
	base, ok := s.Presets[preset]
	if !ok {
		return nil, fmt.Errorf("learner %s has no preset %q%s", s.Name, preset, spell.DidYouMean(preset, slices.Sorted(maps.Keys(s.Presets))))
	}
	given, err := rename(s.Options, given)
	if err != nil {
		return nil, fmt.Errorf("learner %s: %w", s.Name, err)
	}
	all := maps.Clone(base)
	maps.Copy(all, given)
	return all, s.Check(all)
}
