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
		Name: "learners", Args: "[NAME]", Words: registry.Names(), Summary: "list the learners, or show the options of one", MaxArgs: 1,
		Example: "streamsvm learners scs\nstreamsvm learners --json",
		Setup: func(f *cli.Flags) func(context.Context, *cli.Call) error {
			var asJSON bool
			f.Group("Output", func() {
				f.BoolVar(&asJSON, "json", false, jsonUsage)
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

// describeLearner writes a page of 80 columns about a learner and its options.
func describeLearner(w io.Writer, s algos.Spec) error {
	var b strings.Builder
	entry := func(head, text string) { b.WriteString(head + wrap(text, len(head)) + "\n") }
	entry("", s.Name+": "+s.Summary)
	b.WriteString("\n")
	entry("When to use it: ", s.When)
	entry("Paper:          ", s.Paper)
	entry("Model:          ", string(s.Kind)+", "+join(s.Tasks))
	b.WriteString("\nOptions (--set name=value), with their defaults:\n\n")
	name, def := 0, 0
	for _, o := range s.Options {
		name, def = max(name, len(o.Name)), max(def, len(o.Default))
	}
	for _, o := range s.Options {
		entry(fmt.Sprintf("  %-*s  %-*s  ", name, o.Name, def, o.Default), meaning(o))
		entry(strings.Repeat(" ", name+def+6), strings.Join(facts(o), "; "))
	}
	b.WriteString("\nPresets (--preset name):\n\n")
	for _, name := range slices.Sorted(maps.Keys(s.Presets)) {
		text := settings(s.Presets[name])
		switch {
		case text == "" && name == "default":
			text = "the defaults"
		case text == "":
			text = "the same as default"
		}
		if name == "default" && slices.ContainsFunc(s.Options, func(o algos.Option) bool { return o.Tune != "" }) {
			text += "; options that can be tuned and are not given are tuned"
		}
		entry("  "+name+": ", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap breaks a text that begins in the given column so that it ends before
// column 80; further lines begin in the same column or, where that is far to the
// right, in the fourth.
func wrap(text string, column int) string {
	indent := column
	if indent > 32 {
		indent = 4
	}
	var b strings.Builder
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > 80:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// meaning says what an option does, and what its value auto does.
func meaning(o algos.Option) string {
	if o.Auto != "" {
		return o.Doc + "; auto: " + o.Auto
	}
	return o.Doc
}

// facts returns what users should know about an option besides its meaning.
func facts(o algos.Option) []string {
	out := []string{strings.ReplaceAll(values(o), "|", ", ")}
	if o.Tune != "" {
		out = append(out, "tuned")
	}
	if o.Paper != "" {
		out = append(out, "paper: "+o.Paper)
	}
	if o.Alias != "" {
		out = append(out, "or "+o.Alias)
	}
	return out
}

// settings writes options as the user would.
func settings(options map[string]string) string {
	var set []string
	for _, k := range slices.Sorted(maps.Keys(options)) {
		set = append(set, k+"="+options[k])
	}
	return strings.Join(set, " ")
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
	type learner struct {
		Name    string                       `json:"name"`
		Summary string                       `json:"summary"`
		When    string                       `json:"when"`
		Paper   string                       `json:"paper"`
		Kind    algos.Kind                   `json:"kind"`
		Tasks   []algos.Task                 `json:"tasks"`
		Options []algos.Option               `json:"options"`
		Presets map[string]map[string]string `json:"presets"`
	}
	out := []learner{}
	for _, s := range specs {
		out = append(out, learner{s.Name, s.Summary, s.When, s.Paper, s.Kind, s.Tasks, s.Options, s.Presets})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}
