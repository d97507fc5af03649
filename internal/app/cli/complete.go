package cli

import (
	"embed"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/streamsvm/streamsvm/internal/spell"
)

// completeWord is the command that the shells' completion scripts call, with the
// words of a line after the program's name. The last word is incomplete.
const completeWord = "__complete"

// files is the answer that leaves completion to the shell: the word is a file name.
const files = ":files"

// scripts make a shell ask the program for completions. NAME stands for the program's
// name.
//
//go:embed complete.bash complete.zsh complete.fish
var scripts embed.FS

var shells = []string{"bash", "fish", "zsh"}

// completion prints the completion script for a shell.
func (p *Program) completion(args []string, out io.Writer) error {
	if len(args) != 1 {
		return Failf(Usage, "completion wants one of %s, got %d arguments", strings.Join(shells, ", "), len(args))
	}
	script, err := scripts.ReadFile("complete." + args[0])
	if err != nil {
		return Failf(Usage, "no completion for %q%s; there is one for %s", args[0], spell.DidYouMean(args[0], shells), strings.Join(shells, ", "))
	}
	_, err = io.WriteString(out, strings.ReplaceAll(string(script), "NAME", p.Name))
	return err
}

// complete prints the possible completions of the last word, one per line, each
// followed by a tab and its meaning.
func (p *Program) complete(words []string, out io.Writer) {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	offer := func(word, text string) {
		if strings.HasPrefix(word, last) {
			text, _, _ = strings.Cut(text, "\n")
			fmt.Fprintf(out, "%s\t%s\n", word, text)
		}
	}
	commands := func() {
		for _, c := range p.Commands {
			offer(c.Name, c.Summary)
		}
	}
	if len(words) == 1 {
		commands()
		offer("help", "show the flags of a command")
		offer("completion", "print the script that has a shell complete words")
		offer("man", "print the manual page")
		offer("version", "print the version")
		return
	}
	switch words[0] {
	case "help":
		commands()
		return
	case "completion":
		for _, shell := range shells {
			offer(shell, "")
		}
		return
	}
	c, err := p.command(words[0])
	if err != nil {
		return
	}
	f := p.Flags(c)
	if name, long := strings.CutPrefix(words[len(words)-2], "--"); long {
		if fl := f.Lookup(name); fl != nil && fl.Value.Type() != "bool" {
			if values := fl.Annotations[suggested]; values != nil {
				for _, v := range values {
					offer(v, "")
				}
			} else if kind, _ := pflag.UnquoteUsage(fl); strings.Contains(kind, "FILE") || strings.Contains(kind, "DIR") {
				fmt.Fprintln(out, files)
			}
			return
		}
	}
	switch {
	case strings.HasPrefix(last, "-"):
	case c.Words != nil && len(words) == 2:
		for _, w := range c.Words {
			offer(w, "")
		}
		return
	case c.MaxArgs != 0:
		fmt.Fprintln(out, files)
		return
	}
	f.VisitAll(func(fl *pflag.Flag) {
		if _, usage := pflag.UnquoteUsage(fl); !fl.Hidden {
			offer("--"+fl.Name, usage)
		}
	})
}
