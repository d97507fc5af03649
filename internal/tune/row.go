package tune

import "github.com/streamsvm/streamsvm/checkpoint/state"

// Row says how one candidate did at one rung.
type Row struct {
	// Options are the tuned options, "name=value" in order of name.
	Options string
	// Rung counts from 1; Examples is the number of labelled examples at it,
	// those held out in turn included.
	Rung, Examples int
	// Score is the share, by weight, of held-out examples that were predicted right, or
	// minus the mean squared error. Loss, which decides between equal scores,
	// is the mean hinge loss, or the mean squared error.
	Score, Loss float64
	// Chosen marks the row of the candidate that was chosen, at the last rung.
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
