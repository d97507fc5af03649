package cli

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Source says where the value of a setting comes from.
type Source string

// The sources, strongest first.
const (
	FromFlag    Source = "flag"
	FromEnv     Source = "environment"
	FromFile    Source = "file"
	FromDefault Source = "default"
)

// Origin says where the value of a setting comes from.
type Origin struct {
	Source Source
	// Name is the flag as written, the environment variable, or the file's path;
	// empty for a default.
	Name string
	// Line is the line in the file, from 1, or 0.
	Line int
}

func (o Origin) String() string {
	switch {
	case o.Line > 0:
		return fmt.Sprintf("%s:%d", o.Name, o.Line)
	case o.Name != "":
		return o.Name
	}
	return string(o.Source)
}

// envPrefix starts the name of every environment variable used.
const envPrefix = "STREAMSVM_"

// EnvName returns the environment variable that sets the flag called name.
func EnvName(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// settings fills the flags of one command from all sources.
type settings struct {
	program *Program
	flags   *Flags
	command string
	own     string // name of the applicable section
	// sectioned reports whether the file has that section.
	sectioned bool
	// known reports whether any command has a flag with that name, so that several
	// commands can share a file.
	known    map[string]bool
	commands []string
	getenv   func(string) (string, bool)
	origins  map[string]Origin // by flag name; for pairs also by "flag.key"
	aliases  map[string]string // names that other programs use → our names
	// found are the problems of the file, in file order.
	found []*Problem
	// foreign are the lines of settings in the file that only other commands have.
	foreign map[string]int
}

// resolve sets what the command line has left open: from the environment, then from
// the file at path, if any.
func (s *settings) resolve(path string) error {
	s.start()
	for _, name := range s.flags.names() {
		if v, ok := s.getenv(EnvName(name)); ok {
			node := &yaml.Node{Kind: yaml.ScalarNode, Value: strings.ReplaceAll(v, "$", "$$")}
			if err := s.apply(s.flags.Lookup(name), node, Origin{Source: FromEnv, Name: EnvName(name)}); err != nil {
				return err
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.program.Removed)) {
		name, ok := strings.CutPrefix(key, "--")
		if _, set := s.getenv(EnvName(name)); ok && set && !s.known[name] {
			return Fail(Config, problem(Origin{Source: FromEnv, Name: EnvName(name)}, name, "setting %q has been removed: %s", name, s.program.Removed[key]))
		}
	}
	if path == "" {
		return nil
	}
	if err := s.file(path); err != nil {
		return err
	}
	switch n := len(s.found) - 1; {
	case n == 0:
		return Fail(Config, s.found[0])
	case n > 0:
		return Failf(Config, "%w (and %d more: see config lint)", s.found[0], n)
	}
	return nil
}

// start records what the command line has set.
func (s *settings) start() {
	s.origins = map[string]Origin{}
	s.flags.VisitAll(func(f *pflag.Flag) {
		s.origins[f.Name] = Origin{Source: FromDefault}
		if f.Changed {
			s.origins[f.Name] = Origin{Source: FromFlag, Name: "--" + f.Name}
		}
		if p, ok := f.Value.(Pairs); ok {
			for k := range p {
				s.origins[f.Name+"."+k] = s.origins[f.Name]
			}
		}
	})
}

// set sets a flag that is not of type Pairs, unless a stronger source has set it.
func (s *settings) set(f *pflag.Flag, items []string, o Origin) error {
	if s.origins[f.Name].Source != FromDefault {
		return nil
	}
	var err error
	text := strings.Join(items, ",")
	if sv, ok := f.Value.(pflag.SliceValue); ok {
		err = sv.Replace(items)
	} else {
		err = f.Value.Set(text)
	}
	if err != nil {
		err = plain(f, text, err)
		if secret(f) {
			text = redacted
		}
		return Fail(Config, problem(o, f.Name, "%s = %q: %v", f.Name, text, err))
	}
	s.origins[f.Name] = o
	return nil
}

// setPair adds a pair to the flag unless a stronger source has one with its key.
func (s *settings) setPair(f *pflag.Flag, item string, o Origin) error {
	one := Pairs{}
	if err := one.Set(item); err != nil {
		return Fail(Config, problem(o, f.Name, "%s = %q: %v", f.Name, item, err))
	}
	for k, v := range one {
		if _, have := s.origins[f.Name+"."+k]; !have {
			f.Value.(Pairs)[k] = v
			s.origins[f.Name+"."+k] = o
		}
	}
	if s.origins[f.Name].Source == FromDefault {
		s.origins[f.Name] = o
	}
	return nil
}

// apply sets f to the value or values of a node.
func (s *settings) apply(f *pflag.Flag, v *yaml.Node, o Origin) error {
	type item struct {
		text string
		at   Origin
	}
	var items []item
	add := func(prefix string, n *yaml.Node) error {
		n = target(n)
		at := Origin{o.Source, o.Name, n.Line}
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			return Fail(Config, problem(at, f.Name, "%s: want a value", f.Name))
		}
		text, err := expand(n.Value, s.getenv)
		if err != nil {
			return Fail(Config, problem(at, f.Name, "%s: %v", f.Name, err))
		}
		items = append(items, item{prefix + text, at})
		return nil
	}
	_, pairs := f.Value.(Pairs)
	_, slice := f.Value.(pflag.SliceValue)
	d, document := f.Value.(*Document)
	switch v = target(v); {
	case v.Kind == yaml.MappingNode && document:
		if s.origins[f.Name].Source != FromDefault {
			return nil
		}
		s.origins[f.Name] = o
		return d.take(v, o)
	case v.Kind == yaml.MappingNode && pairs:
		for i := 0; i < len(v.Content); i += 2 {
			if err := add(v.Content[i].Value+"=", v.Content[i+1]); err != nil {
				return err
			}
		}
	case v.Kind == yaml.SequenceNode && (pairs || slice):
		for _, n := range v.Content {
			if err := add("", n); err != nil {
				return err
			}
		}
	case v.Kind == yaml.ScalarNode:
		if err := add("", v); err != nil {
			return err
		}
		if pairs || slice {
			whole := items[0]
			items = nil
			for text := range strings.SplitSeq(whole.text, ",") {
				if text = strings.TrimSpace(text); text != "" {
					items = append(items, item{text, whole.at})
				}
			}
		}
	default:
		return Fail(Config, problem(o, f.Name, "%s: want a single value", f.Name))
	}
	var texts []string
	for _, i := range items {
		texts = append(texts, i.text)
		if pairs {
			if err := s.setPair(f, i.text, i.at); err != nil {
				return err
			}
		}
	}
	if pairs {
		return nil
	}
	return s.set(f, texts, o)
}

// target returns the node that an alias refers to.
func target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

var variable = regexp.MustCompile(`\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(:[^}]*)?\}`)

// expand replaces ${NAME} and ${NAME:default} by values from the environment, and
// $$ by $.
func expand(text string, getenv func(string) (string, bool)) (string, error) {
	var missing error
	out := variable.ReplaceAllStringFunc(text, func(m string) string {
		if m == "$$" {
			return "$"
		}
		sub := variable.FindStringSubmatch(m)
		if v, ok := getenv(sub[1]); ok {
			return v
		}
		if sub[2] == "" {
			missing = errors.Join(missing, fmt.Errorf("the environment has no variable %s, and there is no default", sub[1]))
			return ""
		}
		return sub[2][1:]
	})
	return out, missing
}
