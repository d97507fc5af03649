package adaptive

import "github.com/streamsvm/streamsvm/algos"

// options are the learner's options; the tags say what they mean.
type options struct {
	Panel string `opt:"panel" default:"auto" enum:"auto,full,small" doc:"the experts; small: without dsg and k2048; auto: small beyond two classes"`
	Loss  string `opt:"loss" default:"squared" enum:"squared,absolute" doc:"of a regression"`
}

// Spec registers the learner.
var Spec = algos.Define(algos.SpecInfo{
	Name:     "adaptive",
	Summary:  "a stack of kernel SVMs, additive and linear models, nearest neighbours and random features, whose weights follow the stream; what it publishes has weights learned for predictions made later",
	When:     "the default: streams that may change, with nothing to set",
	Paper:    "Penny, Roberts: Dynamic logistic regression, IJCNN 1999 (the stack); Herbster, Warmuth: Tracking the best expert, 1998; Bach, Maloof: Paired learners for concept drift, ICDM 2008 (cuts); base learner Zhang, Sen",
	Kind:     algos.Mixture,
	OwnScale: true,
	Classes:  true,
	Tasks:    []algos.Task{algos.Classify, algos.Regress},
}, nil, newLearner, decodeAny)
