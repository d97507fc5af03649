package adaptive

import "github.com/streamsvm/streamsvm/algos"

// options are the learner's options; the tags say what they mean.
type options struct {
	Panel string `opt:"panel" default:"full" enum:"full,small" doc:"the experts; small, as always with more than 512 features: without random features and without the longest windows"`
	Loss  string `opt:"loss" default:"squared" enum:"squared,absolute" doc:"of a regression"`
}

// Spec registers the learner.
var Spec = algos.Define(algos.SpecInfo{
	Name:     "adaptive",
	Summary:  "a panel: a kernel SVM whose sample is cut when the stream changes, challengers on short windows, and one-pass experts, mixed by their record",
	When:     "the default: streams that may change, with nothing to set; where they do not, it is scs",
	Paper:    "Bach, Maloof: Paired learners for concept drift, ICDM 2008; Monteleoni, Jaakkola: Online learning of non-stationary sequences, NIPS 2003; base learner Zhang, Sen",
	Kind:     algos.Mixture,
	OwnScale: true,
	Tasks:    []algos.Task{algos.Classify, algos.Regress},
}, nil, newLearner, decode)
