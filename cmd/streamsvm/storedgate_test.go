package main

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestStoredGate continues a checkpoint that an earlier version (b1b94de) wrote in the
// middle of a trial: with a champion, the one before it, a challenger and statistics
// of the inputs. Decisions and state must be those of that version's own continuation.
func TestStoredGate(t *testing.T) {
	dir := t.TempDir()
	unpack := func(from, to string) string {
		t.Helper()
		f, err := os.Open(filepath.Join("testdata", "gate", from))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		to = filepath.Join(dir, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, to, string(data))
		return to
	}
	events := unpack("events.json.gz", "events.json")
	stored := filepath.Dir(unpack("checkpoint.ssc.gz", "state/checkpoint-0000000001-000000000001.ssc"))
	args := []string{"replay", events, "--label", "y", "--learner", "online", "--tune=off", "--warmup", "200", "--promote", "champion",
		"--gate", "error <= champion + 0.15; accuracy >= 0.5; examples >= 200; demote >= 0.02", "--json", "-", "-q"}
	r := decode[result](t, must(t, append(args, "--checkpoint", stored)...))
	if g := r.Gate; g == nil || g.Champion != 1000 || g.Challenger != 0 || g.Promotions != 5 || g.Rejections != 2 || g.ServedExamples != 1600 {
		t.Errorf("%+v", g)
	}
	const want = `at 1200: the model of 1000 examples is promoted: error is as good as the rule says; gain 0.0400, -0.1472 to 0.2272, on 200 examples
at 1400: the model of 1200 examples is rejected: error is worse than that of the larger class; gain 0.1750, -0.0311 to 0.3811, on 200 examples
at 1902: the model of 1400 examples is rejected: error is worse than that of the champion; gain -0.3048, -0.4593 to -0.1503, on 502 examples
`
	got := ""
	for _, d := range r.Gate.Decisions {
		got += d.String() + "\n"
	}
	if got != want || r.StateHash != "149463bd145a7fd0" {
		t.Errorf("state hash %s, decisions\n%s", r.StateHash, got)
	}
}
