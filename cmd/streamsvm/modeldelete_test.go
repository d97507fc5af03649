package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// model delete deletes one version or a whole model with its aliases, at once and for
// good, but not what is in use.
func TestModelDelete(t *testing.T) {
	c := newCluster(t)
	topic, models := c.trained()
	at := []string{"--model-topic", models, "--brokers", strings.Join(c.brokers, ",")}
	list := func() modelList {
		t.Helper()
		return decode[modelList](t, must(t, append([]string{"model", "list", "--json"}, at...)...))
	}
	del := func(want cli.Code, text string, args ...string) {
		t.Helper()
		code, out, said := streamsvm(t.Context(), append(append([]string{"model", "delete"}, at...), args...)...)
		if cli.Code(code) != want || !strings.Contains(out+said, text) {
			t.Errorf("model delete %q: exit code %d, %s%s, want %q", args, code, out, said, text)
		}
	}
	vs := list().Versions
	newest, old := vs[len(vs)-1].Version, vs[0].Version
	must(t, append([]string{"model", "promote", "--version", fmt.Sprint(old)}, at...)...)
	must(t, append([]string{"model", "promote"}, at...)...)

	del(cli.Usage, fmt.Sprintf("version %d of model model is not the newest, and no alias stands for it: compaction of topic %s removes it by itself", newest-1, models), "--version", fmt.Sprint(newest-1))
	del(cli.Data, "model model is what champion, champion-1 stands for: promote another version first, or delete both with --yes")
	del(cli.Data, fmt.Sprintf("version %d of model model is what champion-1 stands for", old), "--version", fmt.Sprint(old))
	del(cli.OK, fmt.Sprintf("version %d of model model is deleted from topic %s, also as champion-1\n", old, models), "--version", fmt.Sprint(old), "--yes")
	if l := list(); len(l.Aliases) != 1 || l.Aliases[0].Version != newest {
		t.Errorf("the aliases are %+v", l.Aliases)
	}
	del(cli.OK, fmt.Sprintf("model model is deleted from topic %s, also as champion; a trainer that goes on from its checkpoints publishes it again\n", models), "--yes")
	for _, name := range []string{"model", "model@champion"} {
		if code, _, said := streamsvm(t.Context(), append([]string{"model", "follow", "--model-name", name, "--topic-wait", "1s", "--until", "1"}, at...)...); cli.Code(code) != cli.Unavailable {
			t.Errorf("%s is still there: exit code %d, %s", name, code, said)
		}
	}
	del(cli.Data, "holds no model\n")

	// Another trainer may have the name, and nobody else's followers are lost.
	args := append(append([]string{"train", "--topics", topic, "--checkpoint", filepath.Join(t.TempDir(), "state")}, learn...), at...)
	must(t, append(args, "--until-end")...)
	if _, out, said := streamsvm(t.Context(), append([]string{"doctor"}, slices.DeleteFunc(args[1:], func(s string) bool { return s == "-q" })...)...); !strings.Contains(out, "the checkpoint is at the end of the topics") {
		t.Errorf("doctor says %s%s", out, said)
	}
	if l := list(); len(l.Versions) != 1 || len(l.Aliases) != 0 {
		t.Errorf("the topic holds %+v", l)
	}
	must(t, append([]string{"model", "promote"}, at...)...)
}

// A trainer that runs owns its model; --yes fences it.
func TestModelDeleteOwned(t *testing.T) {
	c := newCluster(t)
	topic, models, state := c.name(), c.name(), filepath.Join(t.TempDir(), "state")
	c.run("generate", "moons", "--count", "1000", "--topic", topic, "--partitions", "1", "-q")
	p := process(t, append([]string{"train", "--topics", topic, "--model-topic", models, "--checkpoint", state, "--brokers", strings.Join(c.brokers, ","), "--checkpoint-interval", "200ms"}, learn...)...)
	p.Stderr = nil
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		_ = p.Wait()
		close(done)
	}()
	c.run("model", "follow", "--model-topic", models, "--until", "1")
	code, _, said := streamsvm(t.Context(), "model", "delete", "--model-topic", models, "--brokers", strings.Join(c.brokers, ","))
	if cli.Code(code) != cli.Data || !strings.Contains(said, "model model belongs to a trainer, ") || !strings.Contains(said, fmt.Sprintf(" process %d, since ", p.Process.Pid)) {
		t.Errorf("exit code %d, %s", code, said)
	}
	c.run("model", "delete", "--model-topic", models, "--yes")
	c.run("generate", "moons", "--count", "1000", "--skip", "1000", "--topic", topic, "-q")
	<-done
	if code := p.ProcessState.ExitCode(); code != int(cli.Fenced) {
		t.Errorf("the trainer has ended with %d", code)
	}
	if running(modeltopic.Claim{Owner: "x", By: strings.TrimSuffix(said[strings.Index(said, "trainer, ")+9:], said[strings.Index(said, ", since"):])}) {
		t.Error("a process that has ended is taken for one that runs")
	}
	if !running(modeltopic.Claim{Owner: "x", By: "elsewhere process 1", At: time.Now()}) || running(modeltopic.Claim{By: "elsewhere process 1"}) {
		t.Error("a trainer elsewhere may run, one that has given up does not")
	}
}
