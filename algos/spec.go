package algos

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/internal/spell"
)

// Spec registers a learner.
type Spec struct {
	SpecInfo
	// Options documents the options that a user can set, in the order of the
	// options struct.
	Options []Option
	// New makes a learner. options maps an option's name to its text; options
	// that are not given have their defaults. New, Check and WithPreset accept fixed
	// options too, since presets set them. Settable refuses them.
	New func(env Env, options map[string]string) (Learner, error)
	// DecodeModel decodes the output of AppendBinary of this learner's models. It
	// returns an error for any other input, and never panics.
	DecodeModel func(data []byte) (Model, error)
	// Check returns the error that New would return for the options.
	Check func(options map[string]string) error

	fixed []Option
}

// SpecInfo is the hand-written part of a Spec.
type SpecInfo struct {
	Name string
	// Summary describes the learner in one line. When says when to use it.
	Summary, When string
	// Paper names the publication and the section implemented.
	Paper string
	Kind  Kind
	// OwnScale says that the learner scales its inputs itself and needs raw inputs.
	OwnScale bool
	// Classes says that the learner supports more than two classes itself. Other
	// learners get one-vs-rest.
	Classes bool
	// Tasks are the supported tasks; the first is the default. Empty stands for
	// Classify.
	Tasks []Task
	// Presets maps a preset's name to the options it sets. "default" and
	// "paper" always exist in a Spec.
	Presets map[string]map[string]string
	// Gone maps options of earlier versions to advice: the replacement, or the reason
	// why there is none.
	Gone map[string]string
}

// Define makes the Spec of a learner whose options are a struct O with the tags of
// Option. validate checks conditions that ranges cannot express. It may be nil.
func Define[O any](info SpecInfo, validate func(*O) error, make func(Env, O) (Learner, error), decode func([]byte) (Model, error)) Spec {
	s := newSpec(info, describe(reflect.TypeFor[O]()))
	parse := func(given map[string]string) (O, error) {
		var o O
		err := s.set(&o, given)
		if err == nil && validate != nil {
			err = validate(&o)
		}
		if err != nil {
			err = fmt.Errorf("learner %s: %w", s.Name, err)
		}
		return o, err
	}
	s.New = func(env Env, options map[string]string) (Learner, error) {
		o, err := parse(options)
		if err == nil {
			err = s.complete(&env)
		}
		if err != nil {
			return nil, err
		}
		return make(env, o)
	}
	s.Check = func(options map[string]string) error { _, err := parse(options); return err }
	s.DecodeModel = decode
	return s
}

// newSpec, set and complete are the part of Define that does not depend on O.
func newSpec(info SpecInfo, docs []Option) Spec {
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
	s := Spec{SpecInfo: info}
	for _, d := range docs {
		if d.fixed {
			s.fixed = append(s.fixed, d)
		} else {
			s.Options = append(s.Options, d)
		}
	}
	return s
}

// set sets the fields of the struct that o points to.
func (s Spec) set(o any, given map[string]string) error {
	docs := slices.Concat(s.Options, s.fixed)
	given, err := rename(docs, given)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if advice, ok := s.Gone[name]; ok && err == nil {
			err = fmt.Errorf("option %s has been removed: %s", name, advice)
		}
	}
	if err != nil {
		return err
	}
	return setOptions(o, docs, given)
}

// complete sets what env leaves open.
func (s Spec) complete(env *Env) error {
	if env.Classes > 2 && !s.Classes {
		return fmt.Errorf("learner %s supports two classes, not %d", s.Name, env.Classes)
	}
	if env.Log == nil {
		env.Log = slog.New(slog.DiscardHandler)
	}
	if env.Task == "" {
		env.Task = s.Tasks[0]
	}
	return nil
}

// WithPreset returns the options of the named preset overridden by given, with names
// in place of aliases.
func (s Spec) WithPreset(preset string, given map[string]string) (map[string]string, error) {
	if preset == "" {
		preset = "default"
	}
	base, ok := s.Presets[preset]
	if !ok {
		return nil, fmt.Errorf("learner %s has no preset %q%s", s.Name, preset, spell.DidYouMean(preset, slices.Sorted(maps.Keys(s.Presets))))
	}
	given, err := rename(slices.Concat(s.Options, s.fixed), given)
	if err != nil {
		return nil, fmt.Errorf("learner %s: %w", s.Name, err)
	}
	all := maps.Clone(base)
	maps.Copy(all, given)
	return all, s.Check(all)
}

// Takes reports whether New takes an option of that name, fixed or not.
func (s Spec) Takes(name string) bool {
	is := func(o Option) bool { return o.Name == name && !o.blank }
	return slices.ContainsFunc(s.Options, is) || slices.ContainsFunc(s.fixed, is)
}

// Settable returns an error if given has an option that users cannot set. It says
// which value the option has under the preset.
func (s Spec) Settable(preset string, given map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if value, ok := s.Fixed(preset, name); ok {
			return fmt.Errorf("learner %s: option %s can no longer be set: it is %s now", s.Name, name, value)
		}
	}
	return nil
}

// Fixed returns the value that the named option has under the preset, and
// whether users can no longer set it.
func (s Spec) Fixed(preset, name string) (value string, ok bool) {
	for _, d := range s.fixed {
		if name = strings.ReplaceAll(name, "-", "_"); name == d.Name || d.Alias != "" && name == d.Alias {
			return cmp.Or(s.Presets[preset][d.Name], d.Default), true
		}
	}
	return "", false
}
