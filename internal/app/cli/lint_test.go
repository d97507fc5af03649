package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const hidden = "pa$$word-1234"

// vault is a program whose command "open" writes its secret's length.
func vault() *Program {
	open := &Command{Name: "open", Summary: "open", Setup: func(f *Flags) func(context.Context, *Call) error {
		var door string
		var n int
		f.Group("Vault", func() {
			f.StringVar(&door, "door", "", "which `DOOR`")
			f.IntVar(&n, "tries", 3, "how often to try")
			f.Secret("code", "the code")
		})
		f.AlsoKnown("door", "entrance")
		f.Check(func(c *Call) []error {
			if n < 1 {
				return []error{c.Bad("tries", fmt.Errorf("%d is too few", n)), nil}
			}
			if door == "" {
				return []error{c.Bad("door", errors.New("no door is given"))}
			}
			return nil
		})
		return func(_ context.Context, c *Call) error {
			s, err := c.Secret("code")
			if err == nil {
				fmt.Fprintf(c.Out, "%d %v", len(s), s == hidden)
			}
			return err
		}
	}}
	other := &Command{Name: "knock", Summary: "knock", Setup: func(f *Flags) func(context.Context, *Call) error {
		f.Group("Knock", func() { f.String("doors", "", "which `DOORS`") })
		f.Check(func(*Call) []error {
			if doors := f.Lookup("doors"); doors.Value.String() == "none" {
				return []error{errors.New("nothing to knock at")}
			}
			return nil
		})
		return func(context.Context, *Call) error { return nil }
	}}
	return &Program{Name: "vault", Commands: []*Command{open, other}, Version: func() string { return "" }}
}

// A secret comes from a setting or a file, in the environment or the
// configuration, the stronger one wins, and no output tells it.
func TestSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(hidden+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(t.TempDir(), "none")
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, config string
		env          map[string]string
		args         []string
		want         string // of stdout, or of stderr if it fails
	}{
		{"nowhere", "", nil, nil, "--code-file: it is not set, and neither is STREAMSVM_CODE"},
		{"flag for the file", "", nil, []string{"--code-file", path}, "13 true"},
		{"environment", "", map[string]string{"STREAMSVM_CODE": hidden}, nil, "13 true"},
		{"environment for the file", "", map[string]string{"STREAMSVM_CODE_FILE": path}, nil, "13 true"},
		{"configuration", "code: pa$$$$word-1234\n", nil, nil, "13 true"},
		{"configuration with a variable", "code: ${CODE}\n", map[string]string{"CODE": hidden}, nil, "13 true"},
		{"configuration for the file", "code-file: " + path + "\n", nil, nil, "13 true"},
		{"environment over configuration", "code: weaker\n", map[string]string{"STREAMSVM_CODE_FILE": path}, nil, "13 true"},
		{"configuration under the flag", "code: weaker\n", nil, []string{"--code-file", path}, "13 true"},
		{"both", "code: " + hidden + "\ncode-file: " + path + "\n", nil, nil, "code-file is set as well"},
		{"no file", "", map[string]string{"STREAMSVM_CODE_FILE": none}, nil, "STREAMSVM_CODE_FILE: code-file: open " + none},
		{"empty file", "", map[string]string{"STREAMSVM_CODE_FILE": empty}, nil, "the file is empty"},
		{"empty", "code: \"\"\n", nil, nil, "it is empty"},
		{"no value", "code: [" + hidden + "]\n", nil, nil, "code: want a single value"},
		{"on the command line", "", nil, []string{"--code", hidden}, "must not be on the command line"},
		{"on the command line, in one", "", nil, []string{"--code=" + hidden}, "must not be on the command line"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.config != "" {
				c.args = append(c.args, "--config", file(t, c.config))
			}
			_, out, errText := call(t, vault(), c.env, append([]string{"open"}, c.args...)...)
			if all := out + errText; !strings.Contains(all, c.want) || strings.Contains(all, hidden) {
				t.Errorf("got %q, want %q in it and no secret", all, c.want)
			}
			values, err := vault().Resolve("open", c.args, Stdio{Getenv: func(k string) (string, bool) { v, ok := c.env[k]; return v, ok }})
			if all := fmt.Sprint(values, err); strings.Contains(all, hidden) || strings.Contains(all, "weaker") {
				t.Errorf("Resolve tells the secret: %s", all)
			}
		})
	}
	if _, help, _ := call(t, vault(), nil, "open", "--help"); !strings.Contains(help, "--code-file FILE") || strings.Contains(help, "--code string") {
		t.Errorf("help is\n%s", help)
	}
}

// Lint finds everything at once, in the order of the file.
func TestLint(t *testing.T) {
	for _, c := range []struct{ name, config, want string }{
		{"nothing wrong", "door: a\nknock: {doors: b}\n", ""},
		{"empty file", "", ": door: no door is given"},
		{"all at once", "dor: a\ntries: x\ntries: 2\nENTRANCE: b\nopn: {door: c}\nknock:\n  door: c\n  doorz: d\n  doors: [1]\n", `
:1: no setting "dor"; did you mean "door"?
:2: tries = "x": want a whole number
:3: "tries" is set in line 2 already
:4: no setting "ENTRANCE"; did you mean "door"?
:5: no setting or command "opn"; did you mean "open"?
:7: the command knock has no setting "door"; did you mean "doors"?
:8: no setting "doorz"; did you mean "door"?
:9: doors: want a single value`},
		{"checks", "door: a\ntries: 0\n", ":2: tries: 0 is too few"},
		{"checks of a command with a section of its own", "door: a\nknock: {doors: none}\n", ": nothing to knock at"},
		{"no checks of a command without one", "door: a\ndoors: none\n", ""},
		{"checks of what is wrong anyway", "door: [a]\n", ":1: door: want a single value"},
		{"the name of another command", "doors: a\n", `:1: the command open has no setting "doors"; did you mean "door"?`},
		{"not YAML", "door: a\n\ttries: 2\n", ":2: not YAML: found a tab character"},
		{"not a mapping", "door:a\n", ":1: want a mapping"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := file(t, c.config)
			found, err := vault().Lint(t.Context(), path, []string{"open"}, Stdio{Out: &bytes.Buffer{}, Getenv: func(string) (string, bool) { return "", false }})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range found {
				got = append(got, strings.TrimPrefix(p.Error(), path))
			}
			want := strings.Split(strings.TrimSpace(c.want), "\n")
			if c.want == "" {
				want = nil
			}
			if len(got) != len(want) {
				t.Fatalf("got %d problems, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
			}
			for i := range got {
				if !strings.HasPrefix(got[i], want[i]) {
					t.Errorf("got %q, want %q", got[i], want[i])
				}
			}
		})
	}
	if _, err := vault().Lint(t.Context(), "/does/not/exist", nil, Stdio{}); CodeOf(err) != Config {
		t.Errorf("a file that does not exist: %v", err)
	}
}
