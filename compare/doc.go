// Package compare answers one question in the forms that a stream needs it: is B
// better than A? All tests are paired: both predict the same examples, and none of
// the examples has been learned from by a model that it is used to judge.
//
//	Detector            is a model of the newest examples better than one of all? Then
//	                    the stream has changed (a change point)
//	PairedInterval      an interval of the mean difference over a finished stream
//	McNemar             the exact test of who is right where the other is wrong
//	Brier, PSI          the loss of a probability, the distance of two histograms
//
// The API may change.
//
// Detector is a function of the sequence of calls. Its Fields method describes the state
// for package checkpoint/state. Package contrib/gate has sequential tests of champions.
package compare
