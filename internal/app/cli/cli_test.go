package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// probe is a program with one command "run" that writes its settings and their
// origins, and one "other" that has a flag of its own.
func probe(do func(c *Call) error) *Program {
	run := &Command{
		Name: "run", Args: "FILE", Summary: "write the settings", MaxArgs: 1,
		Setup: func(f *Flags) func(context.Context, *Call) error {
			var rate float64
			var topics []string
			var merge string
			set := Pairs{}
			f.Group("Input", func() {
				f.Float64Var(&rate, "rate", 1, "records per second")
				f.StringSliceVar(&topics, "topics", nil, "topics to read")
				f.Choice(&merge, "merge", "arrival", []string{"arrival", "ordered"}, "order")
				f.Var(set, "set", "set an option")
			})
			return func(ctx context.Context, c *Call) error {
				if do != nil {
					return do(c)
				}
				fmt.Fprintf(c.Out, "rate=%v (%v)\ntopics=%v (%v)\nmerge=%s (%v)\n", rate, c.Origin("rate"), topics, c.Origin("topics"), merge, c.Origin("merge"))
				for _, k := range slices.Sorted(maps.Keys(set)) {
					fmt.Fprintf(c.Out, "%s=%s (%v)\n", k, set[k], c.Origin("set."+k))
				}
				return nil
			}
		},
	}
	other := &Command{Name: "other", Summary: "do nothing", Setup: func(f *Flags) func(context.Context, *Call) error {
		f.Group("Output", func() { f.Int("port", 1, "port") })
		return func(context.Context, *Call) error { return nil }
	}}
	return &Program{Name: "probe", Summary: "a program", Text: "Settings.", Commands: []*Command{run, other}, Version: func() string { return "probe 1" }}
}

func call(t *testing.T, p *Program, env map[string]string, args ...string) (code int, out, errText string) {
	t.Helper()
	var o, e bytes.Buffer
	code = p.Main(t.Context(), args, Stdio{Out: &o, Err: &e, Getenv: func(k string) (string, bool) {
		v, ok := env[k]
		return v, ok
	}})
	return code, o.String(), e.String()
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	path := file(t, "rate: 2\ntopics: [a, \"b-${SUFFIX:x}\"]\nmerge: ordered\nport: 7\nset:\n  lambda: 0.5\n  gamma: 3\n  cap: 9\nrun:\n  rate: 3\n")
	env := map[string]string{"STREAMSVM_RATE": "4", "STREAMSVM_SET": "gamma=4,lambda=6"}
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		want string
	}{
		{"defaults", nil, nil, "rate=1 (default)\ntopics=[] (default)\nmerge=arrival (default)\n"},
		{"file", map[string]string{"SUFFIX": "y"}, []string{"--config", path},
			"rate=3 (PATH:10)\ntopics=[a b-y] (PATH:2)\nmerge=ordered (PATH:3)\ncap=9 (PATH:8)\ngamma=3 (PATH:7)\nlambda=0.5 (PATH:6)\n"},
		{"environment over file", env, []string{"--config", path},
			"rate=4 (STREAMSVM_RATE)\ntopics=[a b-x] (PATH:2)\nmerge=ordered (PATH:3)\ncap=9 (PATH:8)\ngamma=4 (STREAMSVM_SET)\nlambda=6 (STREAMSVM_SET)\n"},
		{"flags over all", env, []string{"--config=" + path, "--rate=5", "--topics", "t,u", "--topics=v", "--set", "lambda=7"},
			"rate=5 (--rate)\ntopics=[t u v] (--topics)\nmerge=ordered (PATH:3)\ncap=9 (PATH:8)\ngamma=4 (STREAMSVM_SET)\nlambda=7 (--set)\n"},
		{"file named by the environment", map[string]string{"STREAMSVM_CONFIG": path, "STREAMSVM_MERGE": "arrival"}, nil,
			"rate=3 (PATH:10)\ntopics=[a b-x] (PATH:2)\nmerge=arrival (STREAMSVM_MERGE)\ncap=9 (PATH:8)\ngamma=3 (PATH:7)\nlambda=0.5 (PATH:6)\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errText := call(t, probe(nil), c.env, append([]string{"run"}, c.args...)...)
			if code != 0 || errText != "" {
				t.Fatalf("exit code %d, stderr %q", code, errText)
			}
			// Pairs from the file have the line of their mapping's value.
			if got := normalise(out, path); got != normalise(c.want, path) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func normalise(s, path string) string { return strings.ReplaceAll(s, path, "PATH") }

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name, config string
		env          map[string]string
		args         []string
		code         Code
		want         string // in the message
	}{
		{"no command", "", nil, []string{}, Usage, "no command"},
		{"unknown command", "", nil, []string{"runn"}, Usage, `did you mean "run"?`},
		{"unknown flag", "", nil, []string{"run", "--rat=1"}, Usage, "did you mean --rate?"},
		{"bad flag", "", nil, []string{"run", "--rate=x"}, Usage, "--rate"},
		{"bad choice", "", nil, []string{"run", "--merge=x"}, Usage, "arrival, ordered"},
		{"bad pair", "", nil, []string{"run", "--set", "x"}, Usage, "name=value"},
		{"too many arguments", "", nil, []string{"run", "a", "b"}, Usage, "wants FILE, got 2"},
		{"bad environment", "", map[string]string{"STREAMSVM_RATE": "x"}, []string{"run"}, Config, "STREAMSVM_RATE"},
		{"missing file", "", nil, []string{"run", "--config=/does/not/exist"}, Config, "/does/not/exist"},
		{"unknown setting", "rate: 1\nrates: 2\n", nil, []string{"run"}, Config, `PATH:2: no setting "rates"; did you mean "rate"?`},
		{"unknown setting elsewhere", "other:\n  prot: 2\n", nil, []string{"run"}, Config, `PATH:2: no setting "prot"; did you mean "port"?`},
		{"setting of another command", "run:\n  port: 2\n", nil, []string{"run"}, Config, `PATH:2: the command run has no setting "port"`},
		{"twice", "rate: 1\nmerge: ordered\nrate: 2\n", nil, []string{"run"}, Config, `PATH:3: "rate" is set in line 1 already`},
		{"bad value", "\nrate: fast\n", nil, []string{"run"}, Config, `PATH:2: rate = "fast"`},
		{"null", "rate:\n", nil, []string{"run"}, Config, "PATH:1: rate: want a value"},
		{"list for one", "rate: [1, 2]\n", nil, []string{"run"}, Config, "PATH:1: rate: want a single value"},
		{"not a mapping", "- rate\n", nil, []string{"run"}, Config, "PATH:1: want a mapping"},
		{"not YAML", "rate: [\n", nil, []string{"run"}, Config, "PATH"},
		{"variable without default", "topics: ${NOWHERE}\n", nil, []string{"run"}, Config, "NOWHERE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := ""
			if c.config != "" {
				path = file(t, c.config)
				c.args = append(c.args, "--config", path)
			}
			code, _, errText := call(t, probe(nil), c.env, c.args...)
			lines := strings.Split(strings.TrimSpace(errText), "\n")
			last := strings.ReplaceAll(lines[len(lines)-1], path, "PATH")
			if path == "" {
				last = lines[len(lines)-1]
			}
			if Code(code) != c.code || !strings.Contains(last, c.want) || !strings.HasPrefix(last, "probe: ") {
				t.Errorf("exit code %d, want %d; message %q, want %q in it", code, c.code, last, c.want)
			}
			if c.name != "no command" && len(lines) != 1 {
				t.Errorf("%d lines on stderr, want 1:\n%s", len(lines), errText)
			}
		})
	}
}

func TestExpand(t *testing.T) {
	env := func(k string) (string, bool) { v, ok := map[string]string{"A": "1", "E": ""}[k]; return v, ok }
	for in, want := range map[string]string{
		"": "", "x": "x", "${A}": "1", "<${A}|${B:2}>": "<1|2>", "${B:}": "", "${E:9}": "", "$${A}": "${A}", "$A": "$A", "${B:h:9}": "h:9", "$$$$": "$$",
	} {
		got, err := expand(in, env)
		if err != nil || got != want {
			t.Errorf("expand(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	if _, err := expand("${B}", env); err == nil {
		t.Error("a variable without value or default was accepted")
	}
}

func TestCodeOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Code
	}{
		{nil, OK},
		{errors.New("x"), Software},
		{fmt.Errorf("a: %w", Failf(Unavailable, "b")), Unavailable},
		{context.Canceled, Temporary},
		{&fs.PathError{Op: "open", Path: "p", Err: fs.ErrNotExist}, IO},
	} {
		if got := CodeOf(c.err); got != c.want {
			t.Errorf("CodeOf(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}

// TestValueAfterSpace: a flag that may go without a value takes the word that
// follows it as its value.
func TestValueAfterSpace(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, ""}, {[]string{"--dlq"}, ".dlq"}, {[]string{"--dlq=.dead"}, ".dead"}, {[]string{"--dlq", ".dead"}, ".dead"},
		{[]string{"--dlq", "--fast"}, ".dlq"}, {[]string{"--fast", "--dlq", "--", "x"}, ".dlq"},
	} {
		f := newFlags("run")
		dlq := f.String("dlq", "", "suffix")
		f.Lookup("dlq").NoOptDefVal = ".dlq"
		f.Bool("fast", false, "hurry")
		if err := f.parse(c.args); err != nil || *dlq != c.want {
			t.Errorf("%q: %q, %v; want %q", c.args, *dlq, err, c.want)
		}
	}
}

func TestBad(t *testing.T) {
	p := probe(func(c *Call) error { return c.Bad("rate", errors.New("too fast")) })
	path := file(t, "rate: 2\n")
	for _, c := range []struct {
		args []string
		code Code
		want string
	}{
		{[]string{"run"}, Usage, "probe: --rate: too fast\n"},
		{[]string{"run", "--config", path}, Config, "probe: " + path + ":1: rate: too fast\n"},
	} {
		code, _, errText := call(t, p, nil, c.args...)
		if Code(code) != c.code || errText != c.want {
			t.Errorf("%v: exit code %d, %q; want %d, %q", c.args, code, errText, c.code, c.want)
		}
	}
}

// TestTwoLevelsOfHelp: with Common flags --help shows the first paragraph and these
// flags, up to their first semicolon, and --help-all everything, group by group.
func TestTwoLevelsOfHelp(t *testing.T) {
	p := &Program{Name: "probe", Commands: Topic("Things to do", &Command{
		Name: "run", Summary: "run it", Text: "\nRuns.\n\nMore.", Example: "probe run\n\nprobe run -q", Common: []string{"rate"},
		Setup: func(f *Flags) func(context.Context, *Call) error {
			f.Group("Input", func() {
				f.Float64("rate", 1, "records per second; 0 is none")
				f.Int("lanes", 0, "how many `N`")
				f.Lookup("lanes").DefValue = ""
			})
			return nil
		},
	})}
	head := "probe run: run it\n\nUsage: probe run [flags]\n\nRuns.\n\n"
	example := "Examples:\n  probe run\n\n  probe run -q\n\n"
	short := head + example + "Flags:\n      --rate float   records per second (default 1)\n\nFor the rest, run probe run --help-all.\n"
	if _, out, _ := call(t, p, nil, "run", "--help"); out != short {
		t.Errorf("--help is\n%s\nwant\n%s", out, short)
	}
	all := head + "More.\n\n" + example + "Input:\n      --rate float   records per second; 0 is none (default 1)\n      --lanes N      how many N\n\nGeneral:\n"
	if _, out, _ := call(t, p, nil, "run", "--help-all"); !strings.HasPrefix(out, all) || !strings.Contains(out, "\n      --help-all ") {
		t.Errorf("--help-all is\n%s\nwant\n%s", out, all)
	}
	if _, out, _ := call(t, p, nil, "-h"); !strings.Contains(out, "\nThings to do:\n  run        run it\n") {
		t.Errorf("the program's help is\n%s", out)
	}
}

func TestHelp(t *testing.T) {
	code, out, errText := call(t, probe(nil), nil, "--help")
	if code != 0 || errText != "" {
		t.Fatalf("exit code %d, stderr %q", code, errText)
	}
	for _, want := range []string{"Usage: probe COMMAND [flags]", "  run        write the settings", "  78  the configuration file"} {
		if !strings.Contains(out, want) {
			t.Errorf("help lacks %q:\n%s", want, out)
		}
	}
	for _, args := range [][]string{{"run", "--help"}, {"help", "run"}, {"run", "x", "-h"}} {
		_, out, _ = call(t, probe(nil), nil, args...)
		if !strings.Contains(out, "Usage: probe run FILE [flags]") || !strings.Contains(out, "Input:\n") || !strings.Contains(out, "--merge name") {
			t.Errorf("%v: %s", args, out)
		}
	}
	for flag, want := range map[string]string{"--hlep": "help", "--help-al": "help-all", "--confg": "config", "--mrege": "merge"} {
		if _, _, errText := call(t, probe(nil), nil, "run", flag); !strings.Contains(errText, "did you mean --"+want+"?") {
			t.Errorf("%s: %s", flag, errText)
		}
	}
	if _, out, _ := call(t, probe(nil), nil, "--version"); out != "probe 1\n" {
		t.Errorf("version is %q", out)
	}
}

// TestRemoved: names of earlier versions are refused with what replaces them, wherever
// they stand.
func TestRemoved(t *testing.T) {
	p := probe(nil)
	p.Removed = map[string]string{"old": "use run", "--speed": "set rate", "run --port": "it is 2 now"}
	dir := t.TempDir()
	file := func(text string) string {
		path := filepath.Join(dir, fmt.Sprintf("%d.yaml", len(text)))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		env  map[string]string
		args []string
		want string
		code Code
	}{
		{nil, []string{"old", "--x"}, `command "old" has been removed: use run`, Usage},
		{nil, []string{"run", "--speed", "1"}, "run: flag --speed has been removed: set rate", Usage},
		{nil, []string{"run", "--port=1"}, "run: flag --port has been removed: it is 2 now", Usage},
		{map[string]string{"PROBE_SPEED": "1"}, []string{"run"}, "", OK},
		{map[string]string{EnvName("speed"): "1"}, []string{"run"}, `STREAMSVM_SPEED: setting "speed" has been removed: set rate`, Config},
		{nil, []string{"run", "--config", file("speed: 1\n")}, `:1: setting "speed" has been removed: set rate`, Config},
		{nil, []string{"run", "--config", file("\nrun: {speed: 1}\n")}, `:2: setting "speed" has been removed: set rate`, Config},
		{nil, []string{"run", "--config", file("run: {port: 10}\n")}, `setting "port" of run has been removed: it is 2 now`, Config},
		{nil, []string{"run", "--config", file("old: {rate: 1}\n")}, `:1: command "old" has been removed: use run`, Config},
		{nil, []string{"other", "--port", "2"}, "", OK},
	} {
		code, _, said := call(t, p, c.env, c.args...)
		if Code(code) != c.code || !strings.Contains(said, c.want) {
			t.Errorf("%v %q: exit code %d, %q; want %d and %q", c.env, c.args, code, said, c.code, c.want)
		}
	}
}
