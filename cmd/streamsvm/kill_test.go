package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/contrib/inspect"
)

// waitCheckpoints waits until the directory has seen n checkpoints, or until
// done is closed, and reports whether it was the former.
func waitCheckpoints(t *testing.T, dir string, n uint64, done <-chan struct{}) bool {
	t.Helper()
	for {
		if latest(t, dir) >= n {
			return true
		}
		select {
		case <-done:
			return false
		case <-t.Context().Done():
			t.Fatalf("no checkpoint %d in %s", n, dir)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// latest returns the number of the newest checkpoint, 0 without one.
func latest(t *testing.T, dir string) (seq uint64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "checkpoint-*.ssc"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		// Numbers increase; the file may be gone by now.
		if d, err := inspect.File(t.Context(), f, 0); err == nil {
			seq = max(seq, d[0].Seq)
		}
	}
	return seq
}

// process starts this test binary as streamsvm.
func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), "STREAMSVM_TEST_MAIN=1", "STREAMSVM_TEST_SESSION=1500ms")
	cmd.Stderr = os.Stderr
	return cmd
}

// killAgain starts train, whose checkpoints are in dir, again and again until it
// ends by itself. Each life but the last is ended by SIGKILL somewhere after its
// second checkpoint, up to five; before the nth kill it calls before. It returns
// how many there were: at least one, more as the machine lets it.
func killAgain(t *testing.T, dir string, args []string, before func(nth int)) (kills int) {
	t.Helper()
	for {
		p := process(t, args...)
		seen := latest(t, dir)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		var err error
		go func() {
			err = p.Wait()
			close(done)
		}()
		if kills < 5 && waitCheckpoints(t, dir, seen+2, done) {
			kills++
			before(kills)
			_ = p.Process.Kill()
			<-done
			continue
		}
		<-done
		switch {
		case err != nil:
			t.Fatal(err)
		case kills == 0:
			t.Error("the stream ended before the first kill")
		}
		return kills
	}
}

// TestKillAndResume kills trainers with SIGKILL, and the broker once, and
// compares with a run that nobody disturbed.
func TestKillAndResume(t *testing.T) {
	dir := t.TempDir()
	broker := newBrokerProcess(t)
	addr := broker.addr

	must(t, "generate", "checkerboard", "--count", "12000", "--topic", "examples", "--partitions", "4", "--brokers", addr, "-q")
	args := func(name string) []string {
		return append([]string{"train", "--brokers", addr, "--topics", "examples", "--merge", "ordered", "--until-end", "--checkpoint", filepath.Join(dir, name),
			"--checkpoint-every", "300", "--model-topic", "models-" + name, "--record", filepath.Join(dir, name+".ssr"), "--log-level", "error",
			"--promote", "champion", "--gate", "error <= champion + 0.05; examples >= 500"}, learn...)
	}
	must(t, args("plain")...)

	kills := killAgain(t, filepath.Join(dir, "killed"), args("killed"), func(nth int) {
		if nth == 1 {
			broker.kill()
			broker.start()
		}
	})
	a, b := newest(t, filepath.Join(dir, "plain")), newest(t, filepath.Join(dir, "killed"))
	if a.StateHash != b.StateHash {
		t.Errorf("state %s after %d kills, %s without", b.StateHash, kills, a.StateHash)
	}
	if m := b.Meta; m["consumed"] != "12000" || m["learned"] != "12000" || m["pending"] != "0" {
		t.Errorf("fates after %d kills: %v", kills, m)
	}
	hashOf := func(name, model string) string {
		return decode[updateLine](t, must(t, "model", "follow", "--brokers", addr, "--model-topic", "models-"+name, "--model-name", model, "--until", "1", "--json")).Hash
	}
	for _, model := range []string{"model", "model@champion"} {
		if x, y := hashOf("plain", model), hashOf("killed", model); x != y {
			t.Errorf("%s %s after %d kills, %s without", model, y, kills, x)
		}
	}
	if x, y := recorded(t, filepath.Join(dir, "plain.ssr")), recorded(t, filepath.Join(dir, "killed.ssr")); strings.Join(x, "") != strings.Join(y, "") {
		t.Errorf("recordings of %d and %d records differ", len(x), len(y))
	}
	t.Logf("%d kills of the trainer, one of the broker", kills)
}
