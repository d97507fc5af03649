package trainer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// TestTuneAuto: options are chosen on the first examples under every preset but
// that of the publication, unless the user says otherwise.
func TestTuneAuto(t *testing.T) {
	for _, c := range []struct {
		preset string
		tune   Tune
		want   bool
	}{
		{"default", "auto", true}, {"drift", "auto", true}, {"paper", "auto", false},
		{"paper", "on", true}, {"drift", "off", false}, {"default", "off", false},
	} {
		cfg, err := Options{Learner: "sbp", Preset: c.preset, Tune: c.tune}.config()
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Tune != c.want {
			t.Errorf("preset %s, tune %s: tunes: %v", c.preset, c.tune, cfg.Tune)
		}
	}
}

// TestMisspelt: names that are not right are refused before anything is read,
// all of them at once, with what was probably meant.
func TestMisspelt(t *testing.T) {
	o := Options{Learner: "pegasos", Preset: "papr", Set: map[string]string{"gama": "1", "lambda": "-1"}, Scale: "minmaks", Warmup: -1}
	err := o.Validate()
	for _, want := range []string{"paper", `Set["gama"]`, "gamma", `Set["lambda"]`, "minmaks", "Warmup"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v does not mention %s", err, want)
		}
	}
	read := false
	_, err = Run(t.Context(), Job{Options: o, Open: func(context.Context, stream.Offsets) (stream.Source, error) {
		read = true
		return nil, io.EOF
	}})
	var bad *OptionError
	if !errors.As(err, &bad) || read {
		t.Errorf("Run: %v, opened %v", err, read)
	}
	if _, err := Fit(t.Context(), nil, Options{Learner: "pegasus"}); !strings.Contains(fmt.Sprint(err), `did you mean "pegasos"`) {
		t.Error(err)
	}
}
