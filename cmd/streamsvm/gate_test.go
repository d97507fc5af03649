package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGateOnEvents: no version is promoted whose trial has seen events of another
// kind than it was made on, and later ones are again.
func TestGateOnEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.json")
	const n, change = 8000, 4100
	var b strings.Builder
	for i, p := range purchases(n) {
		country := fmt.Sprintf(`"country":%q,`, p.country)
		if i >= change && i%2 == 0 {
			country = ""
		}
		fmt.Fprintf(&b, `{%s"amount":%g,"hour":%d,"fraud":%v}`+"\n", country, p.amount, p.hour, p.zeroOne() == 1)
	}
	write(t, path, b.String())
	r := decode[result](t, must(t, "replay", path, "--label", "fraud", "--learner", "online", "--tune=off", "--promote", "champion",
		"--gate", "error <= champion + 0.1; examples >= 500", "--json", "-", "-q"))
	if r.Gate == nil {
		t.Fatal("nothing is said of the gate")
	}
	before, changed, after := 0, 0, 0
	for _, d := range r.Gate.Decisions {
		t.Log(d)
		switch {
		case d.Verdict == "promoted" && d.At <= change:
			before++
		case d.Verdict == "promoted" && d.Model < change:
			t.Errorf("a model of before the change is promoted after it: %v", d)
		case d.Verdict == "promoted":
			after++
		case d.Verdict == "rejected" && strings.Contains(d.Why, "inputs have changed: ") && strings.Contains(d.Why, "country"):
			changed++
			if d.At <= change {
				t.Errorf("the inputs have changed at %d, and not before: %v", change, d)
			}
		}
	}
	if before == 0 || changed == 0 || after == 0 {
		t.Errorf("%d promoted before, %d rejected because of the change, %d promoted after", before, changed, after)
	}
}

// TestStoredGate continues a checkpoint that an earlier version (b1b94de) wrote in the
// middle of a trial: with a champion, the one before it, a challenger and statistics
// of the inputs. Decisions and state must be those of that version's own continuation.
func TestStoredGate(t *testing.T) {
	dir := t.TempDir()
	unpack := func(from, to string) string {
		t.Helper()
		to = filepath.Join(dir, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, to, gunzip(t, filepath.Join("testdata", "gate", from)))
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
