package algos

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
)

// Spec registers a learner.
type Spec struct {
	Name string
	// Summary says in one line what the learner is, When when to use it.
	Summary, When string
	// Paper names the publication and the section implemented.
	Paper string
	Kind  Kind
	Tasks []Task
	// Options documents every option, in order.
	Options []Option
	// Presets maps a preset's name to the options it sets. "default" and
	// "paper" always exist.
	Presets map[string]map[string]string
	// New makes a learner. options maps an option's name to its text; options
	// that are not given have their defaults.
	New func(env Env, options map[string]string) (Learner, error)
	// DecodeModel reads what the AppendBinary of this learner's models wrote.
	// It copes with any input.
	DecodeModel func(data []byte) (Model, error)
	// Check tells whether New would accept the options.
	Check func(options map[string]string) error
}

// Info is the hand-written part of a Spec.
type SpecInfo struct {
	Name, Summary, When, Paper string
	Kind                       Kind
	Tasks                      []Task
	Presets                    map[string]map[string]string
	// Gone maps the names of options that earlier versions had to what stands
	// for them now.
	Gone map[string]string
}

// Define makes the Spec of a learner whose options are a struct O with the
// tags of Option. validate may be nil; it checks what a range cannot say.
func Define[O any](info SpecInfo, validate func(*O) error, make func(Env, O) (Learner, error), decode func([]byte) (Model, error)) Spec {
	var zero O
	docs := describe(&zero)
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
	parse := func(options map[string]string) (O, error) {
		var o O
		var err error
		for _, name := range slices.Sorted(maps.Keys(options)) {
			if advice, ok := info.Gone[name]; ok && err == nil {
				err = fmt.Errorf("there is no option %s any more: %s", name, advice)
			}
		}
		if err == nil {
			err = setOptions(&o, options)
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
		Name: info.Name, Summary: info.Summary, When: info.When, Paper: info.Paper,
		Kind: info.Kind, Tasks: info.Tasks, Options: docs, Presets: info.Presets,
		New: func(env Env, options map[string]string) (Learner, error) {
			o, err := parse(options)
			if err != nil {
				return nil, err
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

// WithPreset returns the options of the named preset overlaid with given.
func (s Spec) WithPreset(preset string, given map[string]string) (map[string]string, error) {
	if preset == "" {
		preset = "default"
	}
	base, ok := s.Presets[preset]
	if !ok {
		return nil, fmt.Errorf("learner %s: no preset %q", s.Name, preset)
	}
	all := map[string]string{}
	for k, v := range base {
		all[k] = v
	}
	for k, v := range given {
		all[k] = v
	}
	return all, s.Check(all)
}
