package algos

import "github.com/streamsvm/streamsvm/samplers"

// TooLarge bounds the sizes of features, after preprocessing, and of labels.
// Learners take everything below.
const TooLarge = samplers.TooLarge

// Limits say which examples a learner takes, besides the general rule: numbers are
// below TooLarge and the label is one of the task. 0 sets no limit.
type Limits struct {
	// Features is the most features of an example, counted up to its last one.
	Features int
	// Distinct is the most features that differ from 0 in any of the examples.
	Distinct int
	// Option is the name of the learner's option that sets them.
	Option string
	// Unweighted says that the learner takes the weight of each example for 1.
	Unweighted bool
}

// Limited is implemented by learners that have limits. They depend on the
// options only. An example within the limits is never refused by Add, so that
// it is known of a record before anything has been done with it whether it can
// be learned from.
type Limited interface {
	Limits() Limits
}
