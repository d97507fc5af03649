package cli

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/streamsvm/streamsvm/internal/spell"
)

// notSettings are flags that exist only on the command line.
var notSettings = []string{"config", "help", "help-all"}

// names returns the names of the settings.
func (f *Flags) names() []string {
	var names []string
	f.VisitAll(func(fl *pflag.Flag) {
		if !slices.Contains(notSettings, fl.Name) {
			names = append(names, fl.Name)
		}
	})
	return names
}

// Lint returns all problems of the configuration file at path, in file order:
// unknown and repeated names, invalid values, and what the commands' checks find.
// Names and values are checked against every command, since several
// may share a file; the checks run for the given commands and for those with their
// own section. An error means that the file could not be read.
func (p *Program) Lint(ctx context.Context, path string, commands []string, io Stdio) ([]*Problem, error) {
	var all []*Problem
	add := func(q *Problem) {
		if !slices.ContainsFunc(all, func(a *Problem) bool { return *a == *q }) {
			all = append(all, q)
		}
	}
	for _, c := range p.Commands {
		if c.Section != "" {
			continue // its settings are another command's
		}
		s := p.settings(c, p.Flags(c), io)
		s.start()
		if err := s.file(path); err != nil {
			return nil, err
		}
		for _, q := range s.found {
			add(q)
		}
		if s.sectioned && !slices.Contains(commands, c.Name) {
			commands = append(slices.Clip(commands), c.Name)
		}
	}
	bad := map[string]bool{}
	for _, q := range all {
		bad[q.Key] = true
		if q.Nearest != "" {
			bad[q.Nearest] = true // the setting that was meant is not missing
		}
	}
	for _, name := range commands {
		c, err := p.command(name)
		if err != nil {
			return nil, err
		}
		f := p.Flags(c)
		s := p.settings(c, f, io)
		// Problems of the file are known already, but not of the environment.
		err = s.resolve(path)
		var q *Problem
		if errors.As(err, &q) && q.Origin.Source != FromFile {
			add(q)
		}
		if bad[""] {
			continue // not a configuration at all
		}
		call := &Call{Stdio: io, Log: slog.New(slog.DiscardHandler), settings: s}
		for _, check := range f.checks {
			for _, err := range check(call) {
				if err == nil {
					continue
				}
				q := s.explain(collect(err, Origin{}, ""), path)
				if !bad[q.Key] {
					add(q)
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *Problem) int { return a.Origin.Line - b.Origin.Line })
	return all, nil
}

// explain points out, if a setting is missing, a similarly named one in the file
// that belongs to another command.
func (s *settings) explain(q *Problem, path string) *Problem {
	if q.Origin.Source != FromDefault && q.Origin.Source != "" {
		return q
	}
	names := s.flags.names()
	for k, line := range s.foreign {
		if q.Key != "" && spell.Nearest(k, names) == q.Key {
			return problem(Origin{FromFile, path, line}, k, "the command %s has no setting %q; did you mean %q?", s.command, k, q.Key)
		}
	}
	return problem(Origin{FromFile, path, 0}, q.Key, "%s", strings.TrimPrefix(q.Text, "--"))
}

// Value is a setting as resolved for a command.
type Value struct {
	Name, Value string
	Origin      Origin
}

// Resolve parses args (without the command's name) and returns all settings as the
// command would run with them, in the order of its help; pairs are listed one by
// one. Secrets are redacted.
func (p *Program) Resolve(command string, args []string, io Stdio) ([]Value, error) {
	c, err := p.command(command)
	if err != nil {
		return nil, err
	}
	f := p.Flags(c)
	if err := f.parse(args); err != nil {
		return nil, Failf(Usage, "%s: %w", command, err)
	}
	if n := f.NArg(); c.MaxArgs >= 0 && n > c.MaxArgs {
		return nil, Failf(Usage, "%s: %d arguments are too many", command, n)
	}
	s := p.settings(c, f, io)
	if err := s.load(false); err != nil {
		return nil, err
	}
	var out []Value
	for _, name := range f.names() {
		fl := f.Lookup(name)
		v := Value{name, text(fl), s.origins[name]}
		if secret(fl) && v.Origin.Source != FromDefault {
			v.Value = redacted
		}
		pairs, ok := fl.Value.(Pairs)
		if !ok || len(pairs) == 0 {
			out = append(out, v)
			continue
		}
		for _, k := range pairs.keys() {
			out = append(out, Value{name + "." + k, pairs[k], s.origins[name+"."+k]})
		}
	}
	return out, nil
}
