// Package trainer runs the complete job of online learning: it reads a stream,
// learns from it, keeps checkpoints, publishes the model, and continues exactly
// after a crash.
//
// [Run] is what the command streamsvm train does: give it a [Job]. [Fit] learns
// from examples in memory. Both take the same [Options], whose zero value is a good
// choice: it uses the learner adaptive, scales the features, and tunes the options
// left open on the first examples.
//
// The state is a function of the options and the sequence of records alone. It is the
// same to the bit whether records arrive live or are replayed, in one run or with any
// number of restarts in between.
//
// The API is stable.
package trainer
