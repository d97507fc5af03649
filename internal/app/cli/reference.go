package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// setting is one name of a configuration file and what the commands make of
// it.
type setting struct {
	group, name, kind, usage string
	secret                   bool
	commands                 []string
	defaults                 []string // by command
}

// reference returns all settings, group by group.
func (p *Program) reference() []*setting {
	var all []*setting
	groups := map[string]int{}
	for _, c := range p.Commands {
		f, _, _ := p.flags(c)
		for _, g := range f.groups {
			if _, ok := groups[g.title]; !ok {
				groups[g.title] = len(groups)
			}
			for _, name := range g.names {
				if name == "help" || name == "config" {
					continue
				}
				fl := f.Lookup(name)
				kind, usage := pflag.UnquoteUsage(fl)
				// The same name may mean something else to another command.
				i := slices.IndexFunc(all, func(s *setting) bool { return s.name == name && s.usage == usage && s.group == g.title })
				if i < 0 {
					all = append(all, &setting{group: g.title, name: name, kind: kind, usage: usage, secret: secret(fl)})
					i = len(all) - 1
				}
				all[i].commands = append(all[i].commands, c.Name)
				all[i].defaults = append(all[i].defaults, defaultText(fl))
			}
		}
	}
	groups[generalGroup] = len(groups) // what every command has comes last
	slices.SortStableFunc(all, func(a, b *setting) int { return groups[a.group] - groups[b.group] })
	return all
}

// defaultText is the default as a user would write it, "" for none.
func defaultText(f *pflag.Flag) string {
	d := f.DefValue
	if f.Value.Type() != "string" && f.Value.Type() != "name" {
		d = strings.TrimSuffix(strings.TrimPrefix(d, "["), "]")
	}
	return d
}

// Reference writes the documentation of all settings as Markdown.
func (p *Program) Reference(w io.Writer) error {
	var b strings.Builder
	all := p.reference()
	for i, s := range all {
		if i == 0 || all[i-1].group != s.group {
			fmt.Fprintf(&b, "\n## %s\n\n| setting | default | meaning | commands |\n| --- | --- | --- | --- |\n", s.group)
		}
		name := "`" + s.name + "`"
		if s.secret {
			name += " (secret: not on the command line)"
		}
		kind := ""
		// A kind in capitals is a word of the meaning.
		if s.kind != strings.ToUpper(s.kind) && s.kind != "string" && s.kind != "name" {
			kind = " (" + s.kind + ")"
		}
		fmt.Fprintf(&b, "| %s | %s | %s%s | %s |\n", name, s.defaultCell(), cell(s.usage), kind, p.commandsCell(s.commands))
	}
	fmt.Fprintf(&b, "\n## Exit codes\n\n| code | meaning |\n| --- | --- |\n")
	for _, c := range codes {
		fmt.Fprintf(&b, "| %d | %s |\n", c.code, c.text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// defaultCell shows one default, or each with its commands if they differ.
func (s *setting) defaultCell() string {
	quote := func(d string) string {
		if d == "" {
			return ""
		}
		return "`" + d + "`"
	}
	if !slices.ContainsFunc(s.defaults, func(d string) bool { return d != s.defaults[0] }) {
		return quote(s.defaults[0])
	}
	var parts []string
	for i, d := range s.defaults {
		if d == "" {
			d = "none"
		}
		parts = append(parts, fmt.Sprintf("%s: %s", s.commands[i], quote(d)))
	}
	return strings.Join(parts, ", ")
}

func (p *Program) commandsCell(names []string) string {
	if len(names) == len(p.Commands) {
		return "all"
	}
	return strings.Join(names, ", ")
}

func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }
