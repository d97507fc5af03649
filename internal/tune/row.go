package tune

import "github.com/streamsvm/streamsvm/checkpoint/state"

// Row is the result of one candidate at one rung.
type Row struct {
	// Options are the tuned options, "name=value" sorted by name.
	Options string
	// Rung counts from 1. Examples is the number of labelled examples used,
	// including held-out ones.
	Rung, Examples int
	// Score is the weighted accuracy on held-out examples, or minus the mean
	// squared error. Loss, which breaks ties, is the mean hinge loss, or the mean
	// squared error.
	Score, Loss float64
	// Chosen marks the row of the chosen candidate, at the last rung.
	Chosen bool
}

// Fields describes the row, for checkpoints.
func (r *Row) Fields(f *state.Fields) {
	f.String("options", &r.Options)
	f.Int("rung", &r.Rung)
	f.Int("examples", &r.Examples)
	f.Float64("score", &r.Score)
	f.Float64("loss", &r.Loss)
	f.Bool("chosen", &r.Chosen)
}
