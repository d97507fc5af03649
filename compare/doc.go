// Package compare answers one question in the forms that a stream needs: is B better
// than A? All tests are paired: both predict the same examples, and no model is judged
// on an example that it has learned from.
//
//	Detector            is a model of the newest examples better than one of all? Then
//	                    the stream has changed (a change point)
//	PairedInterval      an interval of the mean difference over a finished stream
//	McNemar             the sign test on the examples that only one of them gets right
//	Brier, PSI          the loss of a probability, the distance of two histograms
//
// The API may change.
//
// Detector is a function of the sequence of calls. Its Fields method describes the state
// for package checkpoint/state. Package contrib/gate has sequential tests of champions.
package compare
