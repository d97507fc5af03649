// Package cli is a framework for command-line programs. It resolves settings from
// flags, environment and a configuration file and knows the origin of every value;
// it also provides help, shell completion, logging and exit codes.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/internal/spell"
)

// Stdio is a program's access to its environment.
type Stdio struct {
	In       io.Reader
	Out, Err io.Writer
	// Live replaces the last line of the terminal that Err writes to; nil if that is no
	// terminal. An empty line removes it.
	Live func(line string)
	// Getenv looks up an environment variable.
	Getenv func(string) (string, bool)
	// Dial opens connections to brokers, and FS holds checkpoints; nil means the
	// operating system's.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	FS   checkpoint.FS
}

// Command is one command of a program.
type Command struct {
	// Name is what the user types. Args are the arguments as shown in help, e.g.
	// "FILE...". Summary is one line without a full stop. Topic is the heading in
	// the program's help.
	Name, Args, Summary, Topic string
	// Text describes the command. If there are Common flags, --help shows only its
	// first paragraph, of two or three sentences. Example is always shown in full.
	Text, Example string
	// Common lists the flags that --help shows; --help-all shows all. If it is
	// empty, both show everything.
	Common []string
	// Words are the possible values of the first argument, if it is not a file.
	Words []string
	// MinArgs and MaxArgs bound the number of arguments; MaxArgs -1 sets no bound.
	MinArgs, MaxArgs int
	// Section is the command that the settings belong to and whose section in the
	// configuration file applies; empty is the command itself.
	Section string
	// NoFile means that the configuration file is not read: the command is about
	// that file.
	NoFile bool
	// Setup defines the command's flags and returns the function that runs the
	// command once they are set.
	Setup func(f *Flags) func(ctx context.Context, c *Call) error
}

// Call is one call of a command.
type Call struct {
	Stdio
	Args []string
	// Log writes to Err in the format and from the level that the user chose.
	Log *slog.Logger
	// Quiet says that the user wants no progress lines; JSONLog that everything on
	// Err must be JSON.
	Quiet, JSONLog bool
	settings       *settings
}

// Origin returns where the value of the flag called name comes from, or the value of
// the pair "flag.key". In a zero Call everything is a default.
func (c *Call) Origin(name string) Origin {
	if c.settings == nil {
		return Origin{Source: FromDefault}
	}
	return c.settings.origins[name]
}

// Given reports whether the flag called name has been set anywhere.
func (c *Call) Given(name string) bool { return c.Origin(name).Source != FromDefault }

// Line returns a command line that starts with command and repeats the settings of
// this one. change has the settings that should differ; empty ones and those in
// drop are left out. Settings from the environment or the file are not repeated.
func (c *Call) Line(command string, change map[string]string, drop ...string) string {
	line := []string{command}
	add := func(f *pflag.Flag, value string) {
		word := "--" + f.Name
		switch {
		case f.Value.Type() == "bool" && value == "true":
		case f.NoOptDefVal != "" || strings.HasPrefix(value, "-"):
			word += "=" + value
		default:
			word += " " + Quote(value)
			line = append(line, word)
			return
		}
		line = append(line, Quote(word))
	}
	c.settings.flags.VisitAll(func(f *pflag.Flag) {
		value, other := change[f.Name]
		pairs, several := f.Value.(Pairs)
		switch {
		case slices.Contains(drop, f.Name):
		case other && value != "":
			add(f, value)
		case other || c.Origin(f.Name).Source != FromFlag:
		case several:
			for _, k := range pairs.keys() {
				if c.Origin(f.Name+"."+k).Source == FromFlag {
					add(f, k+"="+pairs[k])
				}
			}
		default:
			add(f, text(f))
		}
	})
	for _, name := range slices.Sorted(maps.Keys(change)) {
		if c.settings.flags.Lookup(name) == nil {
			line = append(line, "--"+name+" "+Quote(change[name]))
		}
	}
	return strings.Join(line, " ")
}

// Quote returns s as a word for a shell.
func Quote(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:=/,+@%", r))
	}) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}

// Printable makes text from outside safe for a terminal: one line, without control
// characters.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '·'
		}
		return r
	}, strings.ToValidUTF8(s, "·"))
}

// Bad returns the error for an invalid value of the flag called name: a usage error
// if it is on the command line, a configuration error if it comes from elsewhere.
func (c *Call) Bad(name string, err error) error {
	o := c.Origin(name)
	key, _, _ := strings.Cut(name, ".")
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	switch o.Source {
	case FromEnv, FromFile:
		return Fail(Config, &badValue{problem(o, key, "%s: %s", name, text), err})
	}
	return Fail(Usage, &badValue{problem(Origin{Source: o.Source}, key, "--%s: %s", name, text), err})
}

// badValue is a problem with a cause that errors.As can reach.
type badValue struct {
	*Problem
	err error
}

func (b *badValue) Unwrap() []error { return []error{b.Problem, b.err} }

// Topic puts commands under a heading of the program's help.
func Topic(heading string, commands ...*Command) []*Command {
	for _, c := range commands {
		c.Topic = heading
	}
	return commands
}

// Program is a set of commands.
type Program struct {
	Name, Summary, Text string
	Version             func() string
	// CodeOf returns the exit code for an error; nil means the function CodeOf.
	CodeOf   func(error) Code
	Commands []*Command
	// Removed says what replaces commands and settings that earlier versions had.
	// Its keys are "COMMAND", "--FLAG", and "COMMAND --FLAG" for a flag that other
	// commands still have.
	Removed map[string]string
}

// removed returns the entry of Removed for a flag of the command, "" if there is none.
func (p *Program) removed(command, flag string) string {
	return cmp.Or(p.Removed[command+" --"+flag], p.Removed["--"+flag])
}

// Main runs the command in args (without the program's name) and returns the exit
// code.
func (p *Program) Main(ctx context.Context, args []string, io Stdio) int {
	err := p.run(ctx, args, io)
	if err == nil {
		return int(OK)
	}
	fmt.Fprintf(io.Err, "%s: %s\n", p.Name, oneLine(err))
	if p.CodeOf != nil {
		return int(p.CodeOf(err))
	}
	return int(CodeOf(err))
}

// oneLine joins the lines of an errors.Join error.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

func (p *Program) run(ctx context.Context, args []string, io Stdio) error {
	if len(args) == 0 {
		fmt.Fprint(io.Err, p.help())
		return Failf(Usage, "no command given")
	}
	switch name := args[0]; {
	case name == "--help" || name == "-h" || name == "--help-all" || name == "help" && len(args) == 1:
		fmt.Fprint(io.Out, p.help())
		return nil
	case (name == "--version" || name == "version") && len(args) > 1:
		return Failf(Usage, "%s takes no argument, got %d", name, len(args)-1)
	case name == "--version" || name == "version":
		fmt.Fprintln(io.Out, p.Version())
		return nil
	case name == completeWord:
		p.complete(args[1:], io.Out)
		return nil
	case name == "completion":
		return p.completion(args[1:], io.Out)
	case name == "man" && len(args) > 1:
		return Failf(Usage, "man takes no argument, got %d", len(args)-1)
	case name == "man":
		return p.man(io.Out)
	case name == "help":
		return p.run(ctx, []string{args[1], "--help"}, io)
	case strings.HasPrefix(name, "-"):
		return Failf(Usage, "no flag %s before the command; see %s --help", name, p.Name)
	}
	c, err := p.command(args[0])
	if err != nil {
		return Failf(Usage, "%w (see %s --help)", err, p.Name)
	}
	return p.call(ctx, c, args[1:], io)
}

// command returns the command with that name.
func (p *Program) command(name string) (*Command, error) {
	for _, c := range p.Commands {
		if c.Name == name {
			return c, nil
		}
	}
	if advice := p.Removed[name]; advice != "" {
		return nil, Failf(Usage, "command %q has been removed: %s", name, advice)
	}
	return nil, Failf(Usage, "no command %q%s", name, spell.DidYouMean(name, p.names()))
}

func (p *Program) names() []string {
	var names []string
	for _, c := range p.Commands {
		names = append(names, c.Name)
	}
	return names
}

// Flags defines the flags of a command.
func (p *Program) Flags(c *Command) *Flags {
	f := newFlags(c.Name)
	f.run = c.Setup(f)
	f.Group("General", func() {
		f.StringVar(&f.config, "config", "", "YAML `FILE` with settings: names of flags and their values")
		f.Choice(&f.level, "log-level", "warn", []string{"debug", "info", "warn", "error"}, "least severe message to log")
		f.Choice(&f.format, "log-format", "text", []string{"text", "json"}, "form of log messages")
		f.BoolVarP(&f.quiet, "quiet", "q", false, "no progress lines")
		f.BoolVarP(&f.help, "help", "h", false, "show this help")
		f.BoolVar(&f.helpAll, "help-all", false, "show all flags, and the whole description of the command")
	})
	return f
}

// elsewhere are flags as other programs call them, and what they are called here.
var elsewhere = map[string]string{
	"http": "listen", "http-addr": "listen", "addr": "listen", "bind": "listen", "port": "listen", "dead-letters": "dlq",
	"bootstrap-server": "brokers", "bootstrap-servers": "brokers", "output-topic": "predictions-topic",
}

func (p *Program) call(ctx context.Context, c *Command, args []string, io Stdio) error {
	crash.Command(c.Name, false)
	f := p.Flags(c)
	if err := f.parse(args); err != nil {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
			if advice := p.removed(c.Name, unknown.GetSpecifiedName()); advice != "" {
				return Failf(Usage, "%s: flag --%s has been removed: %s", c.Name, unknown.GetSpecifiedName(), advice)
			}
			n := elsewhere[unknown.GetSpecifiedName()]
			if n == "" || f.Lookup(n) == nil {
				n = spell.Nearest(unknown.GetSpecifiedName(), append(f.names(), notSettings...))
			}
			if n != "" {
				return Failf(Usage, "%s: %w; did you mean --%s?", c.Name, err, n)
			}
		}
		return Failf(Usage, "%s: %w (see %s %s --help)", c.Name, err, p.Name, c.Name)
	}
	if f.help || f.helpAll {
		fmt.Fprint(io.Out, p.commandHelp(c, f))
		return nil
	}
	s := p.settings(c, f, io)
	if err := s.load(c.NoFile); err != nil {
		return err
	}
	crash.Command(c.Name, f.level == "debug")
	if n := f.NArg(); n < c.MinArgs || c.MaxArgs >= 0 && n > c.MaxArgs {
		what := "takes no argument"
		if c.Args != "" {
			what = "wants " + c.Args
		}
		return Failf(Usage, "%s %s, got %d arguments (see %s %s --help)", c.Name, what, n, p.Name, c.Name)
	}
	return f.run(ctx, &Call{
		Stdio: io, Args: f.Args(), Quiet: f.quiet, JSONLog: f.format == "json", settings: s,
		Log: logger(io.Err, f.level, f.format),
	})
}

// settings returns the settings of a command before anything has been read.
func (p *Program) settings(c *Command, f *Flags, io Stdio) *settings {
	s := &settings{flags: f, command: c.Name, own: c.Section, known: map[string]bool{}, commands: p.names(), getenv: io.Getenv, aliases: map[string]string{}, program: p}
	if s.own == "" {
		s.own = c.Name
	}
	for _, c := range p.Commands {
		f := p.Flags(c)
		for _, name := range f.names() {
			s.known[name] = true
		}
		maps.Copy(s.aliases, f.aliases)
	}
	return s
}

// load fills the settings from all sources, except the file with noFile.
func (s *settings) load(noFile bool) error {
	if err := s.flags.refuseSecrets(); err != nil {
		return err
	}
	path := &s.flags.config
	if *path == "" {
		*path, _ = s.getenv(EnvName("config"))
	}
	if noFile {
		return s.resolve("")
	}
	return s.resolve(*path)
}

// logger returns a logger on w.
func logger(w io.Writer, level, format string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		panic(err) // Choice has checked it
	}
	o := &slog.HandlerOptions{Level: l}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// help returns the help of the program: commands by topic, settings, and exit
// codes.
func (p *Program) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\nUsage: %s COMMAND [flags]\n", p.Name, p.Summary, p.Name)
	for i, c := range p.Commands {
		if i == 0 || c.Topic != p.Commands[i-1].Topic {
			fmt.Fprintf(&b, "\n%s:\n", cmp.Or(c.Topic, "Commands"))
		}
		fmt.Fprintf(&b, "  %-10s %s\n", c.Name, c.Summary)
	}
	fmt.Fprintf(&b, `
%[1]s COMMAND --help shows the flags that most people need, --help-all all of them.
%[1]s --version prints the version, %[1]s man the manual page, and
%[1]s completion SHELL the completion script for bash, zsh or fish.

%[2]s

Exit codes:
`, p.Name, strings.TrimSpace(p.Text))
	for _, c := range codes {
		fmt.Fprintf(&b, "  %2d  %s\n", c.code, c.text)
	}
	return b.String()
}

// commandHelp returns the help of c: the short one, unless --help-all is given or
// there is no short one.
func (p *Program) commandHelp(c *Command, f *Flags) string {
	all := f.helpAll || len(c.Common) == 0
	text, args := strings.TrimSpace(c.Text), c.Args
	if !all {
		text, _, _ = strings.Cut(text, "\n\n")
	}
	if args != "" {
		args = " " + args
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s\n\nUsage: %s %s%s [flags]\n\n", p.Name, c.Name, c.Summary, p.Name, c.Name, args)
	if text != "" {
		fmt.Fprintf(&b, "%s\n\n", text)
	}
	if c.Example != "" {
		example := "  " + strings.ReplaceAll(strings.TrimSpace(c.Example), "\n", "\n  ")
		fmt.Fprintf(&b, "Examples:\n%s\n\n", strings.ReplaceAll(example, "\n  \n", "\n\n"))
	}
	if all {
		b.WriteString(f.usage())
	} else {
		fmt.Fprintf(&b, "Flags:\n%s\nFor the rest, run %s %s --help-all.\n", f.common(c.Common), p.Name, c.Name)
	}
	return b.String()
}
