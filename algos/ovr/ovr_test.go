package ovr

import (
	"testing"

	"github.com/streamsvm/streamsvm/stream"
)

// A label is the number of a class; an example without one always passes.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		y        float64
		labelled bool
		ok       bool
	}{{0, true, true}, {2, true, true}, {3, true, false}, {-1, true, false}, {0.5, true, false}, {7, false, true}} {
		if err := Check(&stream.Example{Y: tt.y, Labelled: tt.labelled}, 3); (err == nil) != tt.ok {
			t.Errorf("label %v, labelled %v: %v", tt.y, tt.labelled, err)
		}
	}
}
