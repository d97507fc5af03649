package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/internal/app/cli"
)

func learnersCommand() *cli.Command {
	return &cli.Command{
		Name: "learners", Args: "[NAME]", Summary: "list the learners, or the options of one", MaxArgs: 1,
		Example: "streamsvm learners scs",
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			var asJSON, markdown bool
			f.Group("Output", func() {
				f.BoolVar(&asJSON, "json", false, "print JSON")
				f.BoolVar(&markdown, "markdown", false, "print the documentation of all options")
			})
			return func(_ context.Context, c *cli.Call) error {
				specs := registry.All
				if len(c.Args) > 0 {
					spec, err := registry.Lookup(c.Args[0])
					if err != nil {
						return cli.Fail(cli.Usage, err)
					}
					specs = []algos.Spec{spec}
				}
				switch {
				case asJSON:
					return learnersJSON(c.Out, specs)
				case markdown:
					return learnersMarkdown(c.Out, specs)
				case len(c.Args) > 0:
					return describeLearner(c.Out, specs[0])
				}
				return listLearners(c.Out, specs)
			}
		},
	}
}

func listLearners(w io.Writer, specs []algos.Spec) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "name\tmodel\ttasks\twhat it is")
	for _, s := range specs {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", s.Name, s.Kind, join(s.Tasks), s.Summary)
	}
	return tw.Flush()
}

func join[S ~string](ss []S) string {
	var out []string
	for _, s := range ss {
		out = append(out, string(s))
	}
	return strings.Join(out, ",")
}

func describeLearner(w io.Writer, s algos.Spec) error {
	fmt.Fprintf(w, "%s: %s\n\n", s.Name, s.Summary)
	fmt.Fprintf(w, "When to use it: %s\nPaper:          %s\nModel:          %s\nTasks:          %s\n\nOptions (--set name=value):\n\n", s.When, s.Paper, s.Kind, join(s.Tasks))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "name\tdefault\trange\ttuned\tpaper\tmeaning")
	for _, o := range s.Options {
		doc := o.Doc
		if o.Auto != "" {
			doc += "; auto: " + o.Auto
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", o.Name, dash(o.Default), dash(values(o)), dash(o.Tune), dash(o.Paper), doc)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nPresets (--preset name):\n\n")
	for _, name := range slices.Sorted(maps.Keys(s.Presets)) {
		var set []string
		for _, k := range slices.Sorted(maps.Keys(s.Presets[name])) {
			set = append(set, k+"="+s.Presets[name][k])
		}
		text := strings.Join(set, " ")
		switch {
		case text == "" && name == "default":
			text = "the defaults above"
		case text == "":
			text = "the same as default"
		}
		if name == "default" && slices.ContainsFunc(s.Options, func(o algos.Option) bool { return o.Tune != "" }) {
			text += "; options that can be tuned and are not given are tuned"
		}
		fmt.Fprintf(w, "%s: %s\n", name, text)
	}
	return nil
}

// values says which values an option takes.
func values(o algos.Option) string {
	v := o.Range
	switch {
	case o.Enum != "":
		v = strings.ReplaceAll(o.Enum, ",", "|")
	case o.Type == "bool":
		v = "true|false"
	}
	if o.Auto != "" && v != "" {
		v += "|auto"
	}
	return v
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func learnersJSON(w io.Writer, specs []algos.Spec) error {
	type option struct {
		Name    string `json:"name"`
		Type    string `json:"type"`
		Default string `json:"default"`
		Range   string `json:"range,omitempty"`
		Enum    string `json:"enum,omitempty"`
		Auto    string `json:"auto,omitempty"`
		Tune    string `json:"tune,omitempty"`
		Paper   string `json:"paper,omitempty"`
		Doc     string `json:"doc"`
	}
	type learner struct {
		Name    string                       `json:"name"`
		Summary string                       `json:"summary"`
		When    string                       `json:"when"`
		Paper   string                       `json:"paper"`
		Kind    algos.Kind                   `json:"kind"`
		Tasks   []algos.Task                 `json:"tasks"`
		Options []option                     `json:"options"`
		Presets map[string]map[string]string `json:"presets"`
	}
	out := []learner{}
	for _, s := range specs {
		l := learner{Name: s.Name, Summary: s.Summary, When: s.When, Paper: s.Paper, Kind: s.Kind, Tasks: s.Tasks, Presets: s.Presets, Options: []option{}}
		for _, o := range s.Options {
			l.Options = append(l.Options, option{o.Name, o.Type, o.Default, o.Range, o.Enum, o.Auto, o.Tune, o.Paper, o.Doc})
		}
		out = append(out, l)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}
