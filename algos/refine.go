package algos

import "context"

// Refiner is implemented by learners that can go on optimising over the
// examples they hold, for comparisons on a fixed set of examples.
type Refiner interface {
	Learner
	// Refine takes pending examples in, without the iterations that their
	// arrival would make due, and does n further iterations, in the paper's
	// counting. It does fewer if there is nothing left to improve: Report.Step
	// counts those done.
	Refine(ctx context.Context, n int) (Report, error)
}
