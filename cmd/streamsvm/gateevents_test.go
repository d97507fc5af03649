package main

import (
	"fmt"
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
