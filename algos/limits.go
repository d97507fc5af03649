package algos

import "github.com/streamsvm/streamsvm/samplers"

// TooLarge bounds the absolute values of features, after preprocessing, and of
// labels. Learners accept all smaller values.
const TooLarge = samplers.TooLarge

// Limits say which examples a learner accepts, beyond the general rule that numbers
// are below TooLarge and labels fit the task. 0 sets no limit.
type Limits struct {
	// Features is the largest number of features of an example, counted up to its
	// last nonzero one.
	Features int
	// Distinct is the largest number of different features that are nonzero in some
	// example.
	Distinct int
	// Option names the learner's option that sets these limits.
	Option string
	// Unweighted says that the learner ignores the weights of examples.
	Unweighted bool
	// AutoUnweighted says that rare classes have more weight only if the user gives it to them.
	AutoUnweighted bool
}

// Limited is implemented by learners with limits. The limits depend only on the
// options. Add never refuses an example within them, so a record can be accepted or
// refused before it is processed.
type Limited interface {
	Limits() Limits
}
