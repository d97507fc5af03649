package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// words is a program to complete.
func words() *Program {
	return &Program{Name: "prog", Summary: "s", Commands: []*Command{
		{Name: "first", Summary: "the -first one's", Text: "Text\n.that begins\n'badly \\ for roff.", MaxArgs: 0, Setup: func(f *Flags) func(context.Context, *Call) error {
			f.Group("Own", func() {
				f.String("name", "", "a name")
				f.String("out", "", "`FILE` to write")
				f.Bool("fast", false, "be fast")
				f.Secret("password", "the password")
				var s string
				f.Choice(&s, "form", "json", []string{"json", "text"}, "form")
			})
			return nil
		}},
		{Name: "second", Words: []string{"list", "show"}, MaxArgs: -1, Setup: func(*Flags) func(context.Context, *Call) error { return nil }},
	}}
}

func run(t *testing.T, args ...string) (out, err string, code int) {
	t.Helper()
	var o, e strings.Builder
	code = words().Main(t.Context(), args, Stdio{Out: &o, Err: &e, Getenv: func(string) (string, bool) { return "", false }})
	return o.String(), e.String(), code
}

func TestComplete(t *testing.T) {
	for line, want := range map[string]string{
		"f":                 "first",
		"x":                 "",
		"second ":           "list show",
		"second s":          "show",
		"second show ":      ":files",
		"first ":            "--name --out --fast --password-file --form --config --log-level --log-format --quiet --help --help-all",
		"first --f":         "--fast --form",
		"first --password":  "--password-file", // there is no flag for the secret itself
		"first --form ":     "json text",
		"first --form t":    "text",
		"first --out ":      ":files",
		"first --name ":     "",
		"first --fast --na": "--name",
		"help s":            "second",
		"completion ":       "bash fish zsh",
		"unknown ":          "",
		"comp":              "completion",
	} {
		out, _, _ := run(t, append([]string{completeWord}, strings.Split(line, " ")...)...)
		var got []string
		for l := range strings.Lines(out) {
			word, _, _ := strings.Cut(strings.TrimSpace(l), "\t")
			got = append(got, word)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	if out, _, code := run(t, completeWord); code != 0 || !strings.HasPrefix(out, "first\t") {
		t.Errorf("no word at all: %d, %s", code, out)
	}
}

// TestShells has the shells that there are ask.
func TestShells(t *testing.T) {
	for shell, ask := range map[string]string{
		"bash": `COMP_WORDS=(prog second s); COMP_CWORD=2; _prog; echo "${COMPREPLY[@]}"`,
		"zsh":  `words=(prog second s); CURRENT=3; _describe() { echo ${(P)2%%:*} }; _prog`,
		"fish": `complete -C "prog second s"`,
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip("no " + shell + " on this machine")
			}
			script, _, code := run(t, "completion", shell)
			if code != 0 {
				t.Fatal("no script")
			}
			dir := t.TempDir()
			// The program that it asks answers as TestComplete has seen it answer.
			answer := "#!/bin/sh\n[ \"$*\" = '__complete second s' ] && printf 'show\\t\\n'\n"
			if err := os.WriteFile(filepath.Join(dir, "prog"), []byte(answer), 0o700); err != nil {
				t.Fatal(err)
			}
			if shell == "zsh" {
				script = "compdef() { :; }\n" + script
			}
			c := exec.Command(path, "-c", script+ask)
			c.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)
			out, err := c.CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != "show" {
				t.Errorf("%q, %v", out, err)
			}
		})
	}
	for _, args := range [][]string{{"completion"}, {"completion", "bsh"}, {"man", "x"}} {
		if _, msg, code := run(t, args...); code != int(Usage) || msg == "" {
			t.Errorf("%q: %d, %s", args, code, msg)
		}
	}
	if _, msg, _ := run(t, "completion", "bsh"); !strings.Contains(msg, `"bash"`) {
		t.Errorf("no suggestion: %s", msg)
	}
}

// TestMan: no line of text becomes a request of the formatter.
func TestMan(t *testing.T) {
	out, _, code := run(t, "man")
	for _, want := range []string{".TH PROG 1", `the \-first one's`, "\n\\&.that begins", "\n\\&'badly \\e for", `\fB\-\-out\fR \fIFILE\fR`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if code != 0 || strings.Contains(out, `\-\-password\fR`) {
		t.Errorf("code %d, or a secret's flag is shown", code)
	}
	man, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("no groff on this machine to read the page")
	}
	c := exec.Command(man, "-man", "-Tutf8", "-ww", "-z")
	c.Stdin = strings.NewReader(out)
	if msg, err := c.CombinedOutput(); err != nil || len(msg) > 0 {
		t.Errorf("groff: %v\n%s", err, msg)
	}
}
