package gate

import (
	"strings"
	"testing"
	"time"
)

// TestMeta reads what an earlier version (b1b94de) has stored, and writes it as it was.
func TestMeta(t *testing.T) {
	const stored = "4 4; 1000:5:1795577779797 1200:6:1795577779808 800:4:1795577779789"
	gate := func() *gate {
		return &gate{promotions: 4, demotions: 1, champion: &snapshot{examples: 1000}, challenger: &snapshot{examples: 1200}, before: &snapshot{examples: 800}}
	}
	g := gate()
	if err := g.Resume(stored); err != nil {
		t.Fatal(err)
	}
	if got := g.Meta(); got != stored {
		t.Errorf("%q, want %q", got, stored)
	}
	if at := time.UnixMilli(1795577779797).UTC(); g.champion.version != 5 || !g.champion.created.Equal(at) || g.challenger.version != 6 || g.before.version != 4 || g.previous != 4 || !g.Changed() {
		t.Errorf("%+v", g)
	}
	g = gate()
	if err := g.Resume("5 5; 1000:5:1795577779797 700:3:1795577779700"); err != nil { // 700 has gone since
		t.Fatal(err)
	}
	if got := g.Meta(); got != "5 5; 1000:5:1795577779797" || g.Changed() {
		t.Errorf("%q, %v", got, g.Changed())
	}
	g = gate()
	if err := g.Resume("5 2;"); err != nil || g.settled != 5 || g.previous != 2 || g.Meta() != "5 2;" {
		t.Errorf("%v, %q", err, g.Meta())
	}
	if err := gate().Resume(""); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"4", "4 x;", "4 -1;", "4 4 4;", "4 4; 1000:5", "4 4; 1000:5:y", "4 4; 1000:5:99999999999999999999"} {
		if err := gate().Resume(bad); err == nil || !strings.Contains(err.Error(), "versions at the gate") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
