package cli

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/streamsvm/streamsvm/internal/spell"
)

// file reads a configuration file: a YAML mapping from flag names to values. A
// mapping under the name of a command has settings for that command only, which
// take precedence over those outside. Problems inside the file are added to
// s.found; an error means that it could not be read at all.
func (s *settings) file(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return Fail(Config, err)
	}
	s.foreign = map[string]int{}
	at := func(line int) Origin { return Origin{FromFile, path, line} }
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		line, text := yamlError(err)
		s.found = append(s.found, problem(at(line), "", "not YAML: %s", text))
		return nil
	}
	if len(doc.Content) == 0 {
		return nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		s.found = append(s.found, problem(at(root.Line), "", "want a mapping from settings to values, such as \"topics: clicks\""))
		return nil
	}
	for i := 0; i < len(root.Content); i += 2 {
		k, v := root.Content[i], root.Content[i+1]
		if s.section(k, v) {
			if k.Value == s.own {
				s.sectioned = true
				s.mapping(path, v, true)
			} else {
				s.check(path, v)
			}
		}
	}
	s.mapping(path, root, false)
	slices.SortStableFunc(s.found, func(a, b *Problem) int { return a.Origin.Line - b.Origin.Line })
	return nil
}

// section reports whether a node has the settings of one command.
func (s *settings) section(k, v *yaml.Node) bool {
	return v.Kind == yaml.MappingNode && slices.Contains(s.commands, k.Value)
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): (.*)`)

// yamlError splits a parser error into line (0 if it has none) and text.
func yamlError(err error) (int, string) {
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			return n, m[2]
		}
	}
	return 0, err.Error()
}

// check only looks for unknown names.
func (s *settings) check(path string, m *yaml.Node) {
	for i := 0; i < len(m.Content); i += 2 {
		if k := m.Content[i]; !s.known[k.Value] {
			s.unknown(path, k, m.Content[i+1], true)
		}
	}
}

func (s *settings) unknown(path string, k, v *yaml.Node, section bool) {
	what, key := "setting", "--"+k.Value
	if v.Kind == yaml.MappingNode && !section && s.program.Removed[k.Value] != "" {
		what, key = "command", k.Value
	}
	if advice := s.program.Removed[key]; advice != "" {
		s.found = append(s.found, problem(Origin{FromFile, path, k.Line}, k.Value, "%s %q has been removed: %s", what, k.Value, advice))
		return
	}
	names := slices.Sorted(maps.Keys(s.known))
	if v.Kind == yaml.MappingNode && !section {
		names = append(names, s.commands...)
		what = "setting or command"
	}
	near, hint := spell.Nearest(k.Value, names), ""
	if n, ok := s.aliases[spell.Canonical(k.Value)]; ok {
		near = n
	}
	if near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	q := problem(Origin{FromFile, path, k.Line}, k.Value, "no %s %q%s", what, k.Value, hint)
	q.Nearest = near
	s.found = append(s.found, q)
}

func (s *settings) mapping(path string, m *yaml.Node, section bool) {
	seen := map[string]int{}
	for i := 0; i < len(m.Content); i += 2 {
		k, v := m.Content[i], m.Content[i+1]
		at := Origin{FromFile, path, k.Line}
		if line, dup := seen[k.Value]; dup {
			s.found = append(s.found, problem(at, k.Value, "%q is set in line %d already", k.Value, line))
			continue
		}
		seen[k.Value] = k.Line
		f := s.flags.Lookup(k.Value)
		switch {
		case !section && s.section(k, v):
		case !s.known[k.Value]:
			s.unknown(path, k, v, section)
		case f == nil && section && s.program.removed(s.command, k.Value) != "":
			s.found = append(s.found, problem(at, k.Value, "setting %q of %s has been removed: %s", k.Value, s.command, s.program.removed(s.command, k.Value)))
		case f == nil && section:
			s.found = append(s.found, problem(at, k.Value, "the command %s has no setting %q%s", s.command, k.Value, spell.DidYouMean(k.Value, s.flags.names())))
		case f == nil:
			s.foreign[k.Value] = k.Line
		default:
			if err := s.apply(f, v, Origin{FromFile, path, v.Line}); err != nil {
				s.found = append(s.found, collect(err, at, k.Value))
			}
		}
	}
}
