package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream/fileio"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestMain makes the test binary the program itself if the environment says
// so, for tests that need a process to kill.
func TestMain(m *testing.M) {
	// Constants that child processes of tests have in another size.
	if d, err := time.ParseDuration(os.Getenv("STREAMSVM_TEST_SESSION")); err == nil {
		sessionTimeout, transactionTimeout = d, 5*time.Second
	}
	if n, err := strconv.Atoi(os.Getenv("STREAMSVM_TEST_FULL_EVERY")); err == nil {
		fullEvery = n
	}
	if os.Getenv("STREAMSVM_TEST_MAIN") != "" {
		progressEvery = 100 * time.Millisecond
		plant()
		main()
	}
	flag.Set("test.parallel", "8") // most tests wait for brokers; a flag of go test overrides it
	os.Exit(m.Run())
}

// streamsvm runs a command in this process.
func streamsvm(ctx context.Context, args ...string) (code int, out, errText string) {
	var o, e buffer // logs come from any goroutine
	code = program().Main(ctx, args, cli.Stdio{In: strings.NewReader(""), Out: &o, Err: &e, Getenv: func(string) (string, bool) { return "", false }})
	return code, o.String(), e.String()
}

// must runs a command that has to succeed and returns its standard output.
func must(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errText := streamsvm(t.Context(), args...)
	if code != 0 {
		t.Fatalf("streamsvm %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errText)
	}
	return out
}

// decode reads JSON.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// moons writes n examples of a stream that is easy to learn to a file.
func moons(t *testing.T, name string, n, skip int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, "generate", "moons", "--seed", "4", "--count", fmt.Sprint(n), "--skip", fmt.Sprint(skip), "--out", path)
	return path
}

func TestHelpGolden(t *testing.T) {
	for name, args := range map[string][]string{"help": {"--help"}, "replay": {"replay", "--help"}, "train": {"train", "--help"}, "train-all": {"train", "--help-all"}} {
		got := must(t, args...)
		path := filepath.Join("testdata", name+".golden")
		if *update {
			write(t, path, got)
		}
		want := read(t, path)
		if got != string(want) {
			t.Errorf("%v differs from %s (run go test -update if that is right):\n%s", args, path, got)
		}
	}
}

// TestHelpOfAllCommands: every command has help with an example or a text, and
// no flag without a description.
func TestHelpOfAllCommands(t *testing.T) {
	for _, c := range program().Commands {
		out := must(t, c.Name, "--help-all")
		if !strings.Contains(out, "Usage: streamsvm "+c.Name) || c.Text == "" && c.Example == "" {
			t.Errorf("help of %s says too little:\n%s", c.Name, out)
		}
		program().Flags(c).VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" && !f.Hidden {
				t.Errorf("%s: no description of --%s", c.Name, f.Name)
			}
			// STREAMSVM_DATA and so on are known to tests and benchmarks already.
			if slices.Contains([]string{"data", "long", "bin", "python", "cache", "vec"}, f.Name) {
				t.Errorf("%s: the environment variable of --%s means something else", c.Name, f.Name)
			}
		})
	}
}

// TestHelpFitsAScreen: the short help of every command has at most 40 lines of at
// most 100 columns, and says where the rest is; --help-all names every flag.
func TestHelpFitsAScreen(t *testing.T) {
	narrow := func(what, text string) {
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 || strings.TrimRight(line, " \n")+"\n" != line {
				t.Errorf("%s: %d columns, or spaces at the end: %q", what, n, line)
			}
		}
	}
	p := program()
	for _, c := range p.Commands {
		short, all := must(t, c.Name, "--help"), must(t, c.Name, "--help-all")
		if n := strings.Count(short, "\n"); n > 40 {
			t.Errorf("%s --help has %d lines:\n%s", c.Name, n, short)
		}
		narrow(c.Name+" --help", short)
		narrow(c.Name+" --help-all", all)
		if must(t, c.Name, "-h") != short || must(t, "help", c.Name) != short || must(t, c.Name, "--help", "--help-all") != all {
			t.Errorf("%s: -h or help is not --help, or --help-all gives way to --help", c.Name)
		}
		switch said := strings.HasSuffix(short, "\nFor the rest, run streamsvm "+c.Name+" --help-all.\n"); {
		case len(c.Common) > 0 && !said:
			t.Errorf("the last line of %s --help does not name --help-all:\n%s", c.Name, short)
		case len(c.Common) == 0 && short != all:
			t.Errorf("%s: --help is not --help-all", c.Name)
		}
		f := p.Flags(c)
		f.VisitAll(func(fl *pflag.Flag) {
			if !fl.Hidden && !strings.Contains(all, " --"+fl.Name+" ") && !strings.Contains(all, " --"+fl.Name+"[") {
				t.Errorf("%s --help-all lacks --%s", c.Name, fl.Name)
			}
		})
		for _, name := range c.Common {
			if !strings.Contains(short, "\n      --"+name+" ") {
				t.Errorf("%s --help lacks --%s", c.Name, name)
			}
		}
	}
	top := must(t, "--help")
	narrow("--help", top)
	at := 0
	for _, want := range []string{"\n  train ", "\n  predict ", "\n  replay ", "\n  demo ", "STREAMSVM_CONFIG", "Exit codes:"} {
		i := strings.Index(top[at:], want)
		if i < 0 {
			t.Fatalf("--help lacks %q, or has it too early:\n%s", want, top)
		}
		at += i
	}
	if must(t, "-h") != top || must(t, "--help-all") != top || must(t, "help") != top {
		t.Error("streamsvm -h, help or --help-all is not --help")
	}
}

func TestLearners(t *testing.T) {
	list := must(t, "learners")
	all := decode[[]map[string]any](t, must(t, "learners", "--json"))
	if len(all) != len(registry.All) {
		t.Errorf("%d learners in JSON, want %d", len(all), len(registry.All))
	}
	for _, s := range registry.All {
		if !strings.Contains(list, "\n"+s.Name+" ") || !strings.Contains(list, s.Summary) {
			t.Errorf("%s is not in the list", s.Name)
		}
		text := must(t, "learners", s.Name)
		words := strings.Join(strings.Fields(text), " ")
		for line := range strings.SplitSeq(text, "\n") {
			if len(line) > 80 {
				t.Errorf("%s: more than 80 columns: %s", s.Name, line)
			}
		}
		one := decode[[]struct {
			Name    string
			Options []struct{ Name, Default, Doc string }
		}](t, must(t, "learners", s.Name, "--json"))
		if len(one) != 1 || one[0].Name != s.Name || len(one[0].Options) != len(s.Options) {
			t.Fatalf("JSON of %s: %v", s.Name, one)
		}
		for i, o := range s.Options {
			if !strings.Contains(text, "\n  "+o.Name+" ") || !strings.Contains(words, o.Doc) {
				t.Errorf("%s: the text lacks option %s", s.Name, o.Name)
			}
			if got := one[0].Options[i]; got.Name != o.Name || got.Default != o.Default || got.Doc != o.Doc {
				t.Errorf("%s: option %d is %v in JSON, want %s", s.Name, i, got, o.Name)
			}
		}
	}
}

func TestExitCodes(t *testing.T) {
	defer func(d time.Duration) { patience = d }(patience)
	patience = time.Millisecond
	dir := t.TempDir()
	good := moons(t, "good.libsvm", 50, 0)
	bad := filepath.Join(dir, "bad.libsvm")
	write(t, bad, "+1 1:0.5\n-1 1:x\n")
	empty := filepath.Join(dir, "empty.json")
	write(t, empty, "")
	other := filepath.Join(dir, "other.bin")
	write(t, other, "neither of them")
	config := filepath.Join(dir, "c.yaml")
	write(t, config, "learner: nobody\n")
	for _, c := range []struct {
		args []string
		code cli.Code
		want string
	}{
		{[]string{"replay", good, "--learner", "sbp", "--tune=off"}, cli.OK, ""},
		{[]string{"replay"}, cli.Usage, "wants FILE..., got 0"},
		{[]string{"replay", good, "--learner", "nobody"}, cli.Usage, `--learner: no learner "nobody"`},
		{[]string{"replay", good, "--config", config}, cli.Config, config + ":1: learner: no learner"},
		{[]string{"replay", good, "--learner", "sbp", "--set", "gama=1"}, cli.Usage, `did you mean "gamma"?`},
		{[]string{"replay", good, "--learner", "sbp", "--preset", "x"}, cli.Usage, "no preset"},
		{[]string{"replay", good, "--learner", "smo"}, cli.Usage, `the learner "smo" has been removed: sbp`},
		{[]string{"replay", good, "--learner", "sbp", "--set", "frozen=100"}, cli.Usage, "option frozen can no longer be set: it is 10000 now"},
		{[]string{"replay", good, "--learner", "online", "--preset", "drift"}, cli.Usage, "use learner adaptive, which needs no preset, or one that has it: scs, sbp"},
		{[]string{"replay", good, "--labelled", "51", "--learner", "sbp"}, cli.Usage, "there are only 50"},
		{[]string{"replay", other}, cli.Usage, "--codec: the name of"},
		{[]string{"replay", bad, "--learner", "sbp"}, cli.Data, "bad.libsvm/0 offset 1"},
		{[]string{"replay", filepath.Join(dir, "none.libsvm")}, cli.IO, "none.libsvm"},
		{[]string{"replay", good, "--learner", "sbp", "--model", filepath.Join(dir, "no", "m.ssm")}, cli.IO, "no such file"},
		{[]string{"model", "inspect", other}, cli.Data, "not a checkpoint"},
		{[]string{"model", "inspect", dir}, cli.Data, "holds no checkpoint"},
		{[]string{"predict", "--model", other}, cli.Data, "not a model, or written by a newer version"},
		{[]string{"schema", "infer", empty, "--task", "regress"}, cli.Data, "there are no records to infer the fields from"},
		{[]string{"predict"}, cli.Usage, "neither --model-topic nor --model"},
		{[]string{"train"}, cli.Usage, "--topics: no topic"},
		{[]string{"train", "--topics", "a", "--model-topic", "m"}, cli.Usage, "--checkpoint: model-topic needs it"},
		{[]string{"train", "--topics", "a", "--start", "soon"}, cli.Usage, "not earliest"},
		{[]string{"copy", good}, cli.Usage, "--topic: no topic"},
		{[]string{"copy", good, "--topics", "t"}, cli.Usage, "one new FILE.ssr, got "},
		{[]string{"model", "rollback", "--model-topic", "m", "--brokers", "127.0.0.1:1"}, cli.Unavailable, "for 1ms: kafka: broker 127.0.0.1:1: connect: nothing listens there (connection refused): check the port"},
		{[]string{"copy", good, "--topic", "t", "--brokers", "127.0.0.1:1"}, cli.Unavailable, "127.0.0.1:1"},
		{[]string{"copy", good, "--topic", "t", "--sasl-mechanism", "plain", "--sasl-password-file", filepath.Join(dir, "none")}, cli.Usage, "sasl-password-file"},
		{[]string{"broker", "--addr", "192.0.2.1:9092"}, cli.Usage, "not a loopback address"},
		{[]string{"generate", "marbles"}, cli.Usage, "checkerboard"},
		{[]string{"generate", "moons", "--set", "x=1"}, cli.Usage, "--set"},
		{[]string{"learners", "nobody"}, cli.Usage, "no learner"},
	} {
		code, _, errText := streamsvm(t.Context(), append(c.args, "-q")...)
		if cli.Code(code) != c.code || !strings.Contains(errText, c.want) {
			t.Errorf("%v: exit code %d, want %d; stderr %q, want %q in it", c.args, code, c.code, errText, c.want)
		}
		if c.code != cli.OK && !strings.Contains(lastLine(errText), "streamsvm: ") {
			t.Errorf("%v: the last line on stderr is %q", c.args, lastLine(errText))
		}
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

func write[T string | []byte](tb testing.TB, path string, data T) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		tb.Fatal(err)
	}
}

func read(tb testing.TB, path string) []byte {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func gunzip(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(z); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestGenerateIsSeeded(t *testing.T) {
	whole := gunzip(t, moons(t, "a.libsvm.gz", 30, 0))
	if again := gunzip(t, moons(t, "b.libsvm.gz", 30, 0)); again != whole {
		t.Error("the same seed gave another stream")
	}
	if rest := gunzip(t, moons(t, "c.libsvm.gz", 20, 10)); !strings.HasSuffix(whole, rest) || strings.Count(rest, "\n") != 20 {
		t.Error("--skip does not give the rest of the stream")
	}
	if out := must(t, "generate", "moons", "--seed", "4", "--count", "30"); out != whole {
		t.Error("standard output differs from a file")
	}
	if out := must(t, "generate", "moons", "--seed", "5", "--count", "30"); out == whole {
		t.Error("another seed gave the same stream")
	}
	packed := filepath.Join(t.TempDir(), "d.libsvm.zst")
	must(t, "generate", "moons", "--seed", "4", "--count", "30", "--out", packed, "-q")
	src, err := fileio.Open([]string{packed}, fileio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if recs, err := readAll(t.Context(), src); err != nil || len(recs) != 30 || string(recs[29].Value)+"\n" != whole[strings.LastIndex(whole[:len(whole)-1], "\n")+1:] {
		t.Errorf("%d records in a .zst: %v", len(recs), err)
	}
	if _, err := os.Stat("/dev/full"); err == nil {
		if code, _, _ := streamsvm(t.Context(), "generate", "moons", "--codec", "json", "--out", "/dev/full"); code == 0 {
			t.Error("a full disk is not reported")
		}
	}
}

// TestSchemaInfer: it says why a field has its type, also that it is ignored.
func TestSchemaInfer(t *testing.T) {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, `{"order":%d,"at":"%d.25,%d","note":null,"late":%t}`+"\n", 7000+i, i*37%100, i*i%89, i%3 == 0)
	}
	file := filepath.Join(t.TempDir(), "orders.jsonl")
	write(t, file, b.String())
	for _, wrong := range [][]string{{"--label", "latte"}, nil, {"--label", "latte", "--task", "regress"}} {
		if code, _, msg := streamsvm(t.Context(), append([]string{"schema", "infer", file}, wrong...)...); code != int(cli.Data) || !strings.Contains(msg, "name it with --label; fields with few values are late (false, true)") {
			t.Errorf("%v: exit code %d, %s", wrong, code, msg)
		}
	}
	if out := must(t, "schema", "infer", file, "--labels", "no,yes"); !strings.HasPrefix(out, "# labels: no,yes\n# 3 features\nfeatures:\n    at: {type: array") {
		t.Errorf("labels that come later: %s", out)
	}
	out := must(t, "schema", "infer", file, "--label", "late")
	for _, line := range []string{"at: {type: array, split: ','} # its texts are lists of numbers", "note: ignore # it is always null", "order: ignore # it looks like an id: whole numbers that are all different"} {
		if !strings.Contains(out, line) {
			t.Errorf("%q is not in\n%s", line, out)
		}
	}
}
