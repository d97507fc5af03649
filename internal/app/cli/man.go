package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// roff quotes text for a manual page.
var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n.", "\n\\&.", "\n'", "\n\\&'")

// man prints the manual page: the help of the program and of all commands.
func (p *Program) man(out io.Writer) error {
	var b strings.Builder
	text := func(s string) {
		b.WriteString(strings.TrimPrefix(roff.Replace("\n"+strings.TrimSpace(s)), "\n") + "\n")
	}
	block := func(s string) {
		b.WriteString(".PP\n.nf\n")
		text(s)
		b.WriteString(".fi\n")
	}
	name := strings.ToUpper(p.Name)
	fmt.Fprintf(&b, ".TH %s 1\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\n.I COMMAND\n[flags]\n.SH DESCRIPTION\n", name, p.Name, roff.Replace(p.Summary), p.Name)
	block(p.Text)
	for _, c := range p.Commands {
		fmt.Fprintf(&b, ".SH %s\n", roff.Replace(strings.ToUpper(p.Name+" "+c.Name)))
		fmt.Fprintf(&b, ".B %s %s\n.I %s\n[flags]\n.PP\n", p.Name, c.Name, roff.Replace(c.Args+" "))
		text(c.Summary)
		if c.Text != "" {
			block(c.Text)
		}
		f := p.Flags(c)
		for _, g := range f.Groups {
			fmt.Fprintf(&b, ".SS %s\n", roff.Replace(g.Title))
			for _, n := range g.Names {
				fl := f.Lookup(n)
				if fl.Hidden {
					continue
				}
				kind, usage := pflag.UnquoteUsage(fl)
				fmt.Fprintf(&b, ".TP\n\\fB%s\\fR \\fI%s\\fR\n", roff.Replace("--"+n), roff.Replace(kind))
				if d := defaultOf(fl); d != "" {
					usage += " (default " + d + ")"
				}
				text(usage)
			}
		}
		if c.Example != "" {
			b.WriteString(".SS Example\n")
			block(c.Example)
		}
	}
	b.WriteString(".SH EXIT STATUS\n")
	for _, c := range codes {
		fmt.Fprintf(&b, ".TP\n%d\n%s\n", c.code, roff.Replace(c.text))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// defaultOf returns the default of a flag, empty for a zero value.
func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "0", "0s", "false", "[]":
		return ""
	}
	return f.DefValue
}
