package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/contrib/inspect"
	"github.com/streamsvm/streamsvm/internal/app/cli"
)

// A run that fails on its first record, or is killed before it, binds nobody: the run
// with corrected settings takes over the checkpoint directory and the name of the
// model, begins with that record, and ends as if it had been the first. Meanwhile the
// name does not count as a model.
func TestCorrectedAfterNothing(t *testing.T) {
	c := newCluster(t)
	brokers := strings.Join(c.brokers, ",")
	topic, other, models := c.name(), c.name(), c.name()
	file := moons(t, "train.libsvm", 600, 0)
	c.run("copy", file, "--topic", topic, "--partitions", "2", "-q")
	empty := filepath.Join(t.TempDir(), "empty")
	write(t, empty, "")
	c.run("copy", empty, "--codec", "libsvm", "--topic", other, "--partitions", "1", "-q")
	dir := t.TempDir()
	args := func(name string, more ...string) []string {
		return append([]string{"train", "--brokers", brokers, "--model-topic", models, "--model-name", name, "--checkpoint", filepath.Join(dir, name), "--warmup", "100", "--tune=off", "-q"}, more...)
	}
	good := []string{"--topics", topic, "--codec", "libsvm", "--learner", "sbp", "--merge", "ordered", "--until-end", "--seed", "3"}
	must(t, args("plain", good...)...)
	want := newest(t, filepath.Join(dir, "plain"))

	killed := func(name string) {
		p := process(t, args(name, "--topics", other, "--learner", "online")...)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			_ = p.Wait()
			close(done)
		}()
		if !waitCheckpoints(t, filepath.Join(dir, name), 1, done) {
			t.Error("the run has ended without a checkpoint")
		}
		_ = p.Process.Kill()
		<-done
	}
	for name, first := range map[string]func(name string){
		"codec": func(name string) {
			code, _, errText := streamsvm(t.Context(), args(name, "--topics", topic, "--codec", "msgpack", "--labels", "pm1", "--learner", "online", "--scale", "unit")...)
			if cli.Code(code) != cli.Data {
				t.Errorf("%s: exit code %d, %s", name, code, errText)
			}
		},
		"killed": killed,
		"events": func(name string) { // what it looks for is not found
			code, _, errText := streamsvm(t.Context(), args(name, "--topics", topic, "--events", "auto", "--label", "y", "--until-end")...)
			if code == 0 {
				t.Errorf("%s: exit code 0, %s", name, errText)
			}
		},
	} {
		first(name)
		out := filepath.Join(t.TempDir(), "m.json")
		c.run("model", "export", "--model-topic", models, "--format", "json", "--out", out)
		if list := c.run("model", "list", "--model-topic", models); !strings.Contains(list, "sbp") {
			t.Errorf("%s: model list says %s", name, list)
		}
		must(t, args(name, good...)...)
		s := newest(t, filepath.Join(dir, name))
		if s.StateHash != want.StateHash || s.ModelVersion == 0 {
			t.Errorf("%s: state %s version %d, want %s", name, s.StateHash, s.ModelVersion, want.StateHash)
		}
		// What has been learned binds.
		code, _, errText := streamsvm(t.Context(), args(name, append(good, "--learner", "online")...)...)
		if cli.Code(code) != cli.Config {
			t.Errorf("%s: another learner: exit code %d, %s", name, code, errText)
		}
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		c.run("model", "list", "--model-topic", models, "--model-name", name)
		models = c.name()
		must(t, args("plain"+name, good...)...)
	}
}

// A first run that begins at the latest record and fails on it leaves the position:
// the corrected one begins there, whatever has come since.
func TestCorrectedBeginsWhereTheFirstDid(t *testing.T) {
	c := newCluster(t)
	topic, dir := c.name(), filepath.Join(t.TempDir(), "state")
	c.run("copy", moons(t, "a.libsvm", 50, 0), "--topic", topic, "--partitions", "1", "-q")
	args := []string{"train", "--brokers", strings.Join(c.brokers, ","), "--topics", topic, "--checkpoint", dir, "--start", "latest", "--learner", "sbp", "--tune=off", "-q"}
	p := process(t, append(args, "--codec", "msgpack", "--labels", "pm1")...)
	p.Stderr = nil
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		_ = p.Wait()
		close(done)
	}()
	waitCheckpoints(t, dir, 1, done)
	c.run("copy", moons(t, "b.libsvm", 200, 50), "--topic", topic, "-q")
	<-done
	if code := p.ProcessState.ExitCode(); code != int(cli.Data) {
		t.Errorf("exit code %d", code)
	}
	must(t, append(args, "--codec", "libsvm", "--until-end")...)
	if s := newest(t, dir); s.Meta["consumed"] != "200" {
		t.Errorf("%s records consumed, want the 200 since the first run began", s.Meta["consumed"])
	}
}

// A missing or damaged EPOCH is said to be that, and --replace-model goes on from the
// checkpoints.
func TestEpochLost(t *testing.T) {
	c := newCluster(t)
	topic, models := c.name(), c.name()
	c.run("copy", moons(t, "a.libsvm", 300, 0), "--topic", topic, "--partitions", "1", "-q")
	for what, harm := range map[string]func(string) error{
		"missing": os.Remove,
		"damaged": func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
	} {
		dir := filepath.Join(t.TempDir(), what)
		args := []string{"train", "--brokers", strings.Join(c.brokers, ","), "--topics", topic, "--checkpoint", dir, "--model-topic", models, "--model-name", what,
			"--codec", "libsvm", "--learner", "sbp", "--tune=off", "--until-end", "-q"}
		must(t, args...)
		before := newest(t, dir)
		if err := harm(filepath.Join(dir, "EPOCH")); err != nil {
			t.Fatal(err)
		}
		code, _, errText := streamsvm(t.Context(), args...)
		if cli.Code(code) != cli.Data || !strings.Contains(errText, filepath.Join(dir, "EPOCH")+" is "+what) || !strings.Contains(errText, "bring it back from a backup; or, if nobody else publishes model "+what+" on topic "+models+", start once with --replace-model") {
			t.Errorf("%s: exit code %d, %q", what, code, errText)
		}
		must(t, append(args, "--replace-model")...)
		if s := newest(t, dir); s.StateHash != before.StateHash || s.ModelVersion < before.ModelVersion {
			t.Errorf("%s: state %s version %d, before %s version %d", what, s.StateHash, s.ModelVersion, before.StateHash, before.ModelVersion)
		}
		must(t, args...)
	}
}

// What a checkpoint was made with is the remedy that the message ends with: given so,
// the run goes on.
func TestChangedSettings(t *testing.T) {
	c := newCluster(t)
	topic, labels := c.name(), c.name()
	c.run("copy", moons(t, "a.libsvm", 300, 0), "--topic", topic, "--partitions", "1", "-q")
	empty := filepath.Join(t.TempDir(), "empty")
	write(t, empty, "")
	c.run("copy", empty, "--codec", "libsvm", "--topic", labels, "--partitions", "1", "-q")
	dir := t.TempDir()
	for i, p := range []struct{ was, now, remedy string }{
		{"--learner sbp", "--learner online", "give --learner sbp"},
		{"--learner sbp --set buffer=100", "--learner sbp --set buffer=200", "give --set buffer=100"},
		{"--learner sbp", "--learner sbp --set buffer=200", "leave --set out"},
		{"--learner sbp --seed 3", "--learner sbp", "give --seed 3"},
		{"--learner sbp --scale unit", "--learner sbp --scale standard", "give --scale unit"},
		{"--learner sbp --scale running", "--learner sbp --scale unit", "give --scale running"},
		{"--learner sbp --tune=off", "--learner sbp --tune=on", "give --tune=off"},
		{"--learner sbp --warmup 120", "--learner sbp --warmup 130", "give --warmup 120"},
		{"--learner sbp --class-weight none", "--learner sbp", "give --class-weight none"},
		{"--learner sbp", "--learner sbp --class-weight none", "give --class-weight auto"},
		{"--learner sbp --window 500", "--learner sbp", "give --window 500"},
		{"--learner sbp --hash-dim 64", "--learner sbp", "give --hash-dim 64"},
		{"--learner adaptive --task regress", "--learner adaptive --task classify", "give --task regress"},
		{"--learner sbp --labels pm1", "--learner sbp --labels 12", "give --labels="},
		{"--learner sbp --join key --labels-topic " + labels + " --join-window 50", "--learner sbp", "give --join key --labels-topic " + labels + " --join-window 50"},
		{"--learner sbp", "--learner sbp --join key --labels-topic " + labels + " --join-window 50", "leave --join out"},
	} {
		state := filepath.Join(dir, strings.Repeat("x", i+1))
		args := func(more ...string) []string {
			return append([]string{"train", "--brokers", strings.Join(c.brokers, ","), "--topics", topic, "--codec", "libsvm", "--checkpoint", state, "--until-end", "-q"}, more...)
		}
		must(t, args(strings.Fields(p.was)...)...)
		before := newest(t, state)
		code, _, errText := streamsvm(t.Context(), args(strings.Fields(p.now)...)...)
		_, remedy, found := strings.Cut(strings.TrimSuffix(errText, "\n"), ": "+p.remedy)
		if cli.Code(code) != cli.Config || !found || !strings.HasSuffix(remedy, ", or begin again with --restart") {
			t.Errorf("%s, then %s: exit code %d, %q, want the remedy %q", p.was, p.now, code, errText, p.remedy)
			continue
		}
		// The remedy, typed as it is said, in place of what is other.
		give, ok := strings.CutPrefix(strings.TrimSuffix(p.remedy+remedy, ", or begin again with --restart"), "give ")
		if !ok {
			give = ""
		}
		must(t, args(append(strings.Fields(p.was), strings.Fields(give)...)...)...)
		if s := newest(t, state); s.StateHash != before.StateHash {
			t.Errorf("%s: the remedy leads to another state", p.was)
		}
	}
	// A model that has been published needs another name, too.
	_, _, errText := streamsvm(t.Context(), "train", "--brokers", strings.Join(c.brokers, ","), "--topics", topic, "--codec", "libsvm", "--checkpoint", filepath.Join(dir, "x"), "--until-end", "-q", "--learner", "online", "--model-topic", c.name())
	if !strings.HasSuffix(errText, "or begin again with --restart\n") {
		t.Errorf("with a model topic: %q", errText)
	}
}

// keyboard is a terminal on which an answer is typed.
type keyboard struct{ io.Reader }

// typed runs a command for somebody who types the answer, or for nobody if it is
// empty.
func typed(t *testing.T, answer string, args ...string) (code int, said string) {
	var e buffer
	was := isTerminal
	isTerminal = func(f any) bool { _, ok := f.(keyboard); return ok }
	defer func() { isTerminal = was }()
	in := io.Reader(keyboard{strings.NewReader(answer)})
	if answer == "" {
		in = strings.NewReader("y\n")
	}
	code = program().Main(t.Context(), args, cli.Stdio{In: in, Out: io.Discard, Err: &e, Getenv: func(string) (string, bool) { return "", false }})
	return code, e.String()
}

// --restart starts over with other settings, as a first run would, in a directory and in
// a topic; numbers of versions go on, and nothing falls back to what was forgotten.
func TestRestart(t *testing.T) {
	c := newCluster(t)
	brokers := strings.Join(c.brokers, ",")
	topic, models := c.name(), c.name()
	c.run("copy", moons(t, "train.libsvm", 600, 0), "--topic", topic, "--partitions", "2", "-q")
	for _, place := range []string{filepath.Join(t.TempDir(), "state"), "kafka://" + c.name()} {
		name := "dir"
		if strings.HasPrefix(place, "kafka") {
			name = "topic"
		}
		args := func(checkpoint, name string, more ...string) []string {
			return append([]string{"train", "--brokers", brokers, "--topics", topic, "--codec", "libsvm", "--merge", "ordered", "--until-end", "--tune=off", "--warmup", "100",
				"--model-topic", models, "--model-name", name, "--checkpoint", checkpoint}, more...)
		}
		state := func(checkpoint, name string) inspect.Description {
			d := decode[[]inspect.Description](t, c.run("model", "inspect", "--json", checkpoint, "--model-name", name))
			return d[0]
		}
		version := func() uint64 {
			return decode[updateLine](t, c.run("model", "follow", "--model-topic", models, "--model-name", name, "--until", "1", "--json")).Version
		}
		must(t, args(place, name, "--learner", "sbp", "-q")...)
		before, had := state(place, name), version()
		for _, answer := range []string{"", "n\n", "yes or no\n"} {
			code, said := typed(t, answer, args(place, name, "--learner", "online", "--restart")...)
			want := "Start over? [y/N] streamsvm: nothing is changed"
			if answer == "" {
				want = "--restart: it would ask before it starts over, and standard input is not a terminal: give --yes"
			}
			if cli.Code(code) != cli.Usage || !strings.Contains(said, want) {
				t.Errorf("%s, answer %q: exit code %d, %s", name, answer, code, said)
			}
		}
		if now := state(place, name); now.StateHash != before.StateHash || version() != had {
			t.Errorf("%s: changed without a yes: %s, was %s", name, now.StateHash, before.StateHash)
		}
		code, said := typed(t, "y\n", args(place, name, "--learner", "online", "--restart")...)
		if code != 0 || !strings.Contains(said, "This forgets the checkpoints in "+place+" and replaces model "+name+" on topic "+models+". Start over?") {
			t.Fatalf("%s: exit code %d, %s", name, code, said)
		}
		plain := filepath.Join(t.TempDir(), "plain")
		must(t, args(plain, "plain"+name, "--learner", "online", "-q")...)
		if now, want := state(place, name), newest(t, plain); now.StateHash != want.StateHash || now.Learner != "online" {
			t.Errorf("%s: state %s of %s, want %s", name, now.StateHash, now.Learner, want.StateHash)
		}
		if now := version(); now <= had {
			t.Errorf("%s: version %d after %d", name, now, had)
		}
		for _, d := range decode[[]inspect.Description](t, c.run("model", "inspect", "--json", place, "--model-name", name)) {
			if d.Learner == "sbp" {
				t.Errorf("%s still holds %+v", place, d)
			}
		}
		had = version()
		must(t, args(place, name, "--learner", "online", "-q")...) // and goes on from there
		must(t, args(filepath.Join(t.TempDir(), "elsewhere"), name, "--learner", "sbp", "--restart", "--yes", "-q")...)
		if now := version(); now <= had {
			t.Errorf("%s: version %d after %d, when it was replaced", name, now, had)
		}
	}
	if code, _, said := streamsvm(t.Context(), "train", "--topics", "a", "--restart", "--yes"); cli.Code(code) != cli.Usage || !strings.Contains(said, "--restart: it needs --checkpoint") {
		t.Errorf("without checkpoints: exit code %d, %s", code, said)
	}
}

// A run that fails before it has consumed a record leaves no file behind, of those that
// it has made.
func TestNothingLeft(t *testing.T) {
	c := newCluster(t)
	topic, models := c.name(), c.name()
	c.run("copy", moons(t, "train.libsvm", 200, 0), "--topic", topic, "--partitions", "1", "-q")
	dir := t.TempDir()
	own := filepath.Join(dir, "own")
	if err := os.Mkdir(own, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{"new", "own"} {
		args := []string{"train", "--brokers", strings.Join(c.brokers, ","), "--topics", topic, "--model-topic", models, "--checkpoint", filepath.Join(dir, place), "--record", filepath.Join(dir, "run.ssr"), "--until-end", "-q"}
		for _, wrong := range [][]string{{"--codec", "msgpack", "--labels", "pm1"}, {"--events", "auto", "--label", "y"}} {
			if code, _, said := streamsvm(t.Context(), append(args, wrong...)...); code == 0 {
				t.Errorf("exit code 0, %s", said)
			}
		}
		left := []string{}
		if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			left = append(left, path)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(left, []string{dir, own}) {
			t.Errorf("checkpoints in %s: there are %q", place, left)
		}
	}
	if code, _, said := streamsvm(t.Context(), "model", "list", "--model-topic", models, "--brokers", strings.Join(c.brokers, ",")); cli.Code(code) != cli.Data || !strings.Contains(said, "holds no model") {
		t.Errorf("exit code %d, %s", code, said)
	}
}
