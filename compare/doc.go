// Package compare answers one question in the forms that a stream needs it: is B
// better than A? All tests are paired: both predict the same examples, and none of
// the examples has been learned from by a model that it is used to judge.
//
//	Detector            is a model of the newest examples better than one of all? Then
//	                    the stream has changed (a change point)
//	ChampionTest        may a challenger take the champion's place, by a Rule?
//	RollbackTest        is the champion worse than the one before it?
//	ConfidenceSequence  bounds of a mean difference that hold at all times
//	PairedInterval      an interval of the mean difference over a finished stream
//	McNemar             the exact test of who is right where the other is wrong
//	Brier, PSI          the loss of a probability, the distance of two histograms
//
// The API may change.
//
// Detector, ChampionTest and RollbackTest are functions of the sequence of calls.
// Their Fields methods describe the state for package checkpoint/state.
package compare
