// Package tune chooses a learner's open options on the first examples of a
// stream.
package tune

import (
	"context"
	"errors"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/state"
	"github.com/streamsvm/streamsvm/stream"
)

// Row is one candidate as it was last scored.
type Row struct {
	// Options are the values tried, "gamma=0.5 C=4".
	Options string
	// Score is the cross-validated accuracy (or minus the squared error), Loss
	// the mean hinge loss.
	Score, Loss float64
	// Examples is the number of examples that it was last scored on.
	Examples int
	Chosen   bool
}

// Fields describes the row.
func (r *Row) Fields(f *state.Fields) {
	f.String("options", &r.Options)
	f.Float64("score", &r.Score)
	f.Float64("loss", &r.Loss)
	f.Int("examples", &r.Examples)
	f.Bool("chosen", &r.Chosen)
}

// Options bound the work.
type Options struct{}

// Result is a choice.
type Result struct {
	// Options are the given options completed by those chosen.
	Options map[string]string
	Table   []Row
}

// Run chooses.
func Run(ctx context.Context, spec algos.Spec, env algos.Env, given map[string]string, examples []*stream.Example, o Options) (Result, error) {
	return Result{}, errors.New("tune: being written")
}
