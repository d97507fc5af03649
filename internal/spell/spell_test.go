package spell

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"brokers", "model-topic", "sasl-password-file", "checkpoint", "checkpoint-interval", "max-down"}
	for in, want := range map[string]string{
		"broker": "brokers", "modelTopic": "model-topic", "MODEL_TOPIC": "model-topic", "password": "sasl-password-file",
		"interval": "checkpoint-interval", "maxdown": "max-down", "checkpont": "checkpoint", "zzzzzz": "", "x": "",
	} {
		if got := Nearest(in, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", in, got, want)
		}
	}
}

// TestCount: one thing is singular, none and several are plural.
func TestCount(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 records", 1: "1 record", 2: "2 records", 11: "11 records"} {
		if got := Count(n, "record"); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}
