package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/streamsvm/streamsvm/internal/spell"
)

// Flags is the flag set of a command. Flags are defined in groups, which help shows
// under their titles.
type Flags struct {
	*pflag.FlagSet
	Groups  []Group
	checks  []func(*Call) []error
	aliases map[string]string
	run     func(context.Context, *Call) error
	// Flags of every command.
	config, level, format string
	quiet, help, helpAll  bool
}

// Group is a group of flags, by name.
type Group struct {
	Title string
	Names []string
}

func newFlags(name string) *Flags {
	fs := &Flags{FlagSet: pflag.NewFlagSet(name, pflag.ContinueOnError)}
	fs.SortFlags = false
	fs.Usage = func() {}
	return fs
}

// Group defines flags by calling define and shows them under title.
func (f *Flags) Group(title string, define func()) {
	i := slices.IndexFunc(f.Groups, func(g Group) bool { return g.Title == title })
	if i < 0 {
		i = len(f.Groups)
		f.Groups = append(f.Groups, Group{Title: title})
	}
	before := map[string]bool{}
	f.VisitAll(func(fl *pflag.Flag) { before[fl.Name] = true })
	define()
	f.VisitAll(func(fl *pflag.Flag) {
		if !before[fl.Name] {
			f.Groups[i].Names = append(f.Groups[i].Names, fl.Name)
		}
	})
}

// Check adds a check that concerns more than a single value: whether files exist,
// whether settings are compatible. Checks run once all settings are resolved, and
// in config lint. Errors made by Call.Bad say where the setting comes from. A check
// must not change anything and must not use the network.
func (f *Flags) Check(check func(c *Call) []error) { f.checks = append(f.checks, check) }

// AlsoKnown gives other programs' names for the setting called name, for
// suggestions.
func (f *Flags) AlsoKnown(name string, others ...string) {
	if f.aliases == nil {
		f.aliases = map[string]string{}
	}
	for _, o := range others {
		f.aliases[spell.Canonical(o)] = name
	}
}

// Choice defines a flag that takes one of the given values, or its default.
func (f *Flags) Choice(p *string, name, def string, values []string, usage string) {
	*p = def
	f.Var(&choice{p, def, values}, name, usage+": "+strings.Join(values, ", "))
	f.Suggest(name, values)
}

// Suggest sets the values of a flag that a shell completes; other values are
// allowed, too.
func (f *Flags) Suggest(name string, values []string) {
	f.Lookup(name).Annotations = map[string][]string{suggested: values}
}

// suggested is the annotation with the values to complete.
const suggested = "streamsvm-values"

type choice struct {
	p      *string
	def    string
	values []string
}

func (c *choice) String() string { return *c.p }
func (c *choice) Type() string   { return "name" }

func (c *choice) Set(s string) error {
	if s != c.def && !slices.Contains(c.values, s) {
		return fmt.Errorf("want one of %s%s", strings.Join(c.values, ", "), spell.DidYouMean(s, c.values))
	}
	*c.p = s
	return nil
}

// Pairs is the value of a repeatable flag k=v. Its settings merge key by key: a
// pair on the command line leaves the other keys of the file in effect.
type Pairs map[string]string

func (p Pairs) String() string {
	var list []string
	for _, k := range p.keys() {
		list = append(list, k+"="+p[k])
	}
	return strings.Join(list, ",")
}

func (p Pairs) keys() []string { return slices.Sorted(maps.Keys(p)) }

// text returns the value of a flag as a user would write it.
func text(f *pflag.Flag) string {
	if sv, ok := f.Value.(pflag.SliceValue); ok {
		return strings.Join(sv.GetSlice(), ",")
	}
	return f.Value.String()
}

// Type names the flag's argument in help.
func (p Pairs) Type() string { return "k=v" }

// Set adds one pair.
func (p Pairs) Set(s string) error {
	k, v, ok := strings.Cut(s, "=")
	if k = strings.TrimSpace(k); !ok || k == "" {
		return fmt.Errorf("want name=value")
	}
	p[k] = strings.TrimSpace(v)
	return nil
}

// helpWidth keeps help within 100 columns: pflag exceeds it by up to 5.
const helpWidth = 95

// usage returns the help text of all flags, group by group.
func (f *Flags) usage() string {
	var b strings.Builder
	for _, g := range f.Groups {
		part := pflag.NewFlagSet("", pflag.ContinueOnError)
		part.SortFlags = false
		for _, n := range g.Names {
			part.AddFlag(f.shown(n))
		}
		if part.HasAvailableFlags() {
			fmt.Fprintf(&b, "%s:\n%s\n", g.Title, part.FlagUsagesWrapped(helpWidth))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// shown returns a copy of the flag called name as help shows it: without a default
// if its description already has it.
func (f *Flags) shown(name string) *pflag.Flag {
	fl := *f.Lookup(name)
	if fl.DefValue == "" && fl.Value.Type() == "int" {
		fl.DefValue = "0" // pflag does not show zero defaults
	}
	return &fl
}

// common returns the help text of the named flags, each up to the first semicolon:
// the rest is detail.
func (f *Flags) common(names []string) string {
	part := pflag.NewFlagSet("", pflag.ContinueOnError)
	part.SortFlags = false
	for _, n := range names {
		fl := f.shown(n)
		fl.Usage, _, _ = strings.Cut(fl.Usage, "; ")
		part.AddFlag(fl)
	}
	return part.FlagUsagesWrapped(helpWidth)
}

// parse is Parse, except that for flags with an optional value, too, a following
// word is the value, as with every other flag.
func (f *Flags) parse(args []string) error {
	var joined []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			joined = append(joined, args[i:]...)
			break
		}
		name, long := strings.CutPrefix(arg, "--")
		if fl := f.Lookup(name); long && fl != nil && fl.NoOptDefVal != "" && fl.Value.Type() != "bool" &&
			i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			arg += "=" + args[i]
		}
		joined = append(joined, arg)
	}
	return f.Parse(joined)
}
