package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/contrib/inspect"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
)

// keyPair makes a pair of keys as its users do.
func keyPair(t *testing.T) (private, public string) {
	t.Helper()
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("no openssl")
	}
	private = filepath.Join(t.TempDir(), "key.pem")
	public = private + ".pub"
	for _, args := range [][]string{{"genpkey", "-algorithm", "ed25519", "-out", private}, {"pkey", "-in", private, "-pubout", "-out", public}} {
		if out, err := exec.Command(openssl, args...).CombinedOutput(); err != nil {
			t.Fatalf("openssl %q: %v\n%s", args, err, out)
		}
	}
	return private, public
}

// trained trains on moons and returns the model topic, of several versions.
func (c *cluster) trained(more ...string) (topic, models string) {
	c.t.Helper()
	topic, models = kafkatest.Topic(c.t, c.brokers, 1, nil), kafkatest.Topic(c.t, c.brokers, 1, nil) // all versions stay
	state := c.t.TempDir()
	for wave := range 3 {
		c.run("generate", "moons", "--count", "1000", "--skip", fmt.Sprint(1000*wave), "--topic", topic, "-q")
		c.run(append(append([]string{"train", "--topics", topic, "--model-topic", models, "--checkpoint", state, "--until-end"}, learn...), more...)...)
	}
	return topic, models
}

func TestModelVersions(t *testing.T) {
	c := newCluster(t)
	topic, models := c.trained()
	model := func(verb string, args ...string) string {
		t.Helper()
		return c.run(append([]string{"model", verb, "--model-topic", models}, args...)...)
	}
	fails := func(want cli.Code, text, verb string, args ...string) {
		t.Helper()
		code, _, errText := streamsvm(t.Context(), append([]string{"model", verb, "--model-topic", models, "--brokers", strings.Join(c.brokers, ",")}, args...)...)
		if code != int(want) || !strings.Contains(errText, text) {
			t.Errorf("model %s %q: exit code %d, %s", verb, args, code, errText)
		}
	}
	list := func() modelList { t.Helper(); return decode[modelList](t, model("list", "--json")) }
	stands := func(want ...uint64) {
		t.Helper()
		var have []uint64
		for _, a := range list().Aliases {
			have = append(have, a.Version)
		}
		if !slices.Equal(have, want) {
			t.Errorf("the aliases stand for %d, not %d", have, want)
		}
	}

	first := list()
	if n := len(first.Versions); n < 3 || first.Versions[n-1].By == "" || first.Versions[n-1].Examples != 3000 || len(first.Aliases) != 0 || first.Model != "model" {
		t.Fatalf("the topic holds %+v", first)
	}
	newest := first.Versions[len(first.Versions)-1].Version
	fails(cli.Data, "model@champion stands for no version: there is nothing to go back to; promote one first", "rollback")
	fails(cli.Usage, "does not have version 999", "promote", "--version", "999")
	fails(cli.Temporary, "does not stand for any version yet", "promote", "--expect", "1")
	fails(cli.Usage, "latest", "promote", "--alias", "latest")
	fails(cli.Usage, "has no such flag", "list", "--version", "1")
	fails(cli.Usage, `did you mean "rollback"`, "rolback")
	fails(cli.Data, "holds no model", "list", "--model-name", "modell")
	model("promote", "--version", "2", "--reason", "first", "--expect", "0")
	fails(cli.Data, "model@champion has stood for version 2 only: there is nothing to go back to", "rollback")
	text := model("promote")
	if want := fmt.Sprintf("model@champion now stands for version %d, 3000 examples, recent accuracy ", newest); !strings.HasPrefix(text, want) || !strings.HasSuffix(text, "before for version 2\n") {
		t.Errorf("promote prints %q", text)
	}
	if text := model("promote"); text != fmt.Sprintf("model@champion stands for version %d already, the newest; nothing is changed\n", newest) {
		t.Errorf("promote prints %q", text)
	}
	stands(newest, 2)
	fails(cli.Temporary, fmt.Sprintf("stands for version %d, not for the expected 2", newest), "promote", "--version", "1", "--expect", "2")
	if text := model("rollback"); text != fmt.Sprintf("model@champion stands for version 2 again; before for version %d\n", newest) {
		t.Errorf("rollback prints %q", text)
	}
	stands(2, newest)
	if a := list().Aliases[0]; a.Alias != "champion" || a.Reason != "rollback" || a.By == "" || *a.Previous != newest || a.Examples == 0 || len(a.Evaluation) == 0 {
		t.Errorf("the alias is described as %+v", a)
	}

	// Who follows no alias has the newest, whichever comes first in the topic.
	one := func(args ...string) updateLine {
		t.Helper()
		return decode[updateLine](t, c.run(append([]string{"model", "follow", "--model-topic", models, "--until", "1", "--json"}, args...)...))
	}
	if u := one(); u.Model != "model" || u.Version != newest {
		t.Errorf("the newest is %s, version %d", u.Model, u.Version)
	}
	if u := one("--alias", "champion"); u.Model != "model@champion" || u.Version != 2 {
		t.Errorf("champion is %s, version %d", u.Model, u.Version)
	}
	if u := one("--alias", "champion-1", "--model-name", "model"); u.Version != newest {
		t.Errorf("before, champion was version %d", u.Version)
	}
	if bare, named := model("export"), model("export", "--alias", "champion"); strings.Contains(bare, "@champion") || !strings.Contains(named, "model@champion") {
		t.Errorf("exported is %.300s; with an alias %.300s", bare, named)
	}
	for _, m := range decode[[]inspect.Description](t, c.run("model", "inspect", "--model-topic", models, "--json"))[0].Topic.Models {
		if u := m.Updates[len(m.Updates)-1]; (u.Promotion != nil) != strings.Contains(m.Name, "@") {
			t.Errorf("%s is described as %+v", m.Name, u)
		}
	}

	// A version comes back from a file.
	dir := t.TempDir()
	one("--alias", "champion", "--save", dir)
	file := filepath.Join(dir, "model@champion-0000000002.ssm")
	model("promote", "--model", file, "--model-name", "model", "--alias", "blue")
	// It may be the first model of a topic.
	c.run("model", "promote", "--model-topic", models+"-of-files", "--model", file, "--model-name", "model")
	fails(cli.Usage, "of which version", "promote", "--model", filepath.Join(dir, "model@champion.ssm"), "--model-name", "model")
	if u := one("--alias", "blue"); u.Version != 2 || u.Hash != one("--alias", "champion").Hash {
		t.Errorf("the version of the file is %+v", u)
	}

	fails(cli.Usage, "model compare A B FILE... compares", "diff", "1", "champion")

	// The shadow has the same records, and says so of itself.
	predictions, shadow := c.name(), c.name()
	c.run("predict", "--model-topic", models, "--alias", "champion", "--shadow", "blue", "--shadow-topic", shadow, "--topics", topic,
		"--predictions-topic", predictions, "--until-end", "-q")
	read := func(topic, model string) (at []string) {
		for _, r := range kafkatest.ReadAll(t, c.brokers, topic) {
			p := decode[struct {
				Model, Topic string
				Offset       int64
				Decision     json.Number
			}](t, string(r.Value))
			if p.Model != model {
				t.Fatalf("%s holds a prediction of %s", topic, p.Model)
			}
			at = append(at, fmt.Sprint(p.Topic, p.Offset, p.Decision))
		}
		return at
	}
	if a, b := read(predictions, "model@champion"), read(shadow, "model@blue"); len(a) != 3000 || !slices.Equal(a, b) {
		t.Errorf("%d predictions, %d of the shadow", len(a), len(b))
	}
	// Without a model the shadow is missed by nobody.
	predictions = c.name()
	code, _, errText := streamsvm(t.Context(), "predict", "--model-topic", models, "--shadow", "nobody", "--shadow-topic", c.name(), "--topics", topic,
		"--predictions-topic", predictions, "--until-end", "--topic-wait", "10ms", "--brokers", strings.Join(c.brokers, ","))
	if code != 0 || !strings.Contains(errText, "the shadow has stopped") || len(read(predictions, "model")) != 3000 {
		t.Errorf("exit code %d: %s", code, errText)
	}
}

func TestModelNameReserved(t *testing.T) {
	code, _, text := streamsvm(t.Context(), "train", "--topics", "t", "--model-topic", "m", "--checkpoint", t.TempDir(), "--model-name", "a@b")
	if code != int(cli.Usage) || !strings.Contains(text, "@") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

func TestSignedModels(t *testing.T) {
	private, public := keyPair(t)
	_, foreign := keyPair(t)
	c := newCluster(t)
	_, models := c.trained("--signing-key-file", private)
	run := func(args ...string) (int, string) {
		code, out, errText := streamsvm(t.Context(), append(args, "--model-topic", models, "--brokers", strings.Join(c.brokers, ","))...)
		return code, out + errText
	}
	signed := 0
	for _, v := range decode[modelList](t, c.run("model", "list", "--json", "--trusted-keys", public, "--model-topic", models)).Versions {
		if v.SignedBy == "" {
			t.Errorf("version %d is not signed", v.Version)
		}
		signed++
	}
	if signed < 3 {
		t.Errorf("%d versions are signed", signed)
	}
	empty := filepath.Join(t.TempDir(), "empty.json")
	write(t, empty, "")
	for _, args := range [][]string{{"model", "follow", "--until", "1"}, {"model", "inspect"}, {"predict", empty, "--codec", "json"}} {
		if code, text := run(append(args, "--trusted-keys", public)...); code != 0 {
			t.Errorf("%q with the key: exit code %d: %s", args, code, text)
		}
		if args[len(args)-1] != "inspect" {
			args = append(args, "--topic-wait", "10ms")
		}
		if code, text := run(append(args, "--trusted-keys", foreign)...); code == 0 || !strings.Contains(text, "is not a trusted key") {
			t.Errorf("%q with another key: exit code %d: %s", args, code, text)
		}
	}
	// An alias is as much worth as the one who has promoted.
	if code, text := run("model", "promote"); code != 0 {
		t.Errorf("exit code %d: %s", code, text)
	}
	if code, text := run("model", "follow", "--until", "1", "--alias", "champion", "--trusted-keys", public, "--topic-wait", "10ms"); code == 0 || !strings.Contains(text, "it is not signed") {
		t.Errorf("an alias that is not signed: exit code %d: %s", code, text)
	}
	if code, text := run("model", "promote", "--signing-key-file", private); code != 0 {
		t.Errorf("exit code %d: %s", code, text)
	}
	if code, text := run("model", "follow", "--until", "1", "--alias", "champion", "--trusted-keys", foreign+","+public); code != 0 {
		t.Errorf("exit code %d: %s", code, text)
	}
	if code, text := run("model", "promote", "--version", "1"); code == 0 || !strings.Contains(text, "without a signing key") {
		t.Errorf("promoted without a key: exit code %d: %s", code, text)
	}
	for _, args := range [][]string{{"model", "promote", "--signing-key-file", public}, {"model", "follow", "--trusted-keys", private}, {"model", "follow", "--trusted-keys", "/does/not/exist"}} {
		if code, text := run(args...); code != int(cli.Usage) || !strings.Contains(text, args[len(args)-2]) {
			t.Errorf("%q: exit code %d: %s", args, code, text)
		}
	}
}
