package main

import (
	"testing"

	"github.com/streamsvm/streamsvm/internal/app/cli"
)

// TestTuneAuto: options are chosen on the first examples under every preset but
// that of the publication, unless the user says otherwise.
func TestTuneAuto(t *testing.T) {
	for _, c := range []struct {
		preset, tune string
		want         bool
	}{
		{"default", "auto", true}, {"drift", "auto", true}, {"paper", "auto", false},
		{"paper", "on", true}, {"drift", "off", false}, {"default", "off", false},
	} {
		o := learnFlags{learner: "sbp", preset: c.preset, tune: c.tune, scale: "auto", window: 1000}
		cfg, err := o.config(&cli.Call{})
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Tune != c.want {
			t.Errorf("preset %s, tune %s: tunes: %v", c.preset, c.tune, cfg.Tune)
		}
	}
}
