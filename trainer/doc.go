// Package trainer runs the whole job: it reads a stream, learns from it, keeps
// checkpoints, publishes the model, and goes on after a crash as if nothing had
// happened.
//
// [Run] is the service that streamsvm train is: give it a [Job]. [Fit] learns
// from examples in memory. Both take the same [Options], of which the zero
// value is a good one: it learns with adaptive, scales the features, and tunes what
// is left open on the first examples.
//
// What is learned is a function of the options and the sequence of records
// alone: it is the same to the bit whether the records come live or are read
// again later, in one run or with any number of restarts in between.
//
// The API is stable.
package trainer
