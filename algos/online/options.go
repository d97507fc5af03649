package online

import (
	"fmt"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/model"
)

// options are the learner's options; their tags document them.
type options struct {
	Update string  `opt:"update" default:"nag" enum:"nag,pa,sgd" doc:"step sizes: nag has one for each feature; pa is passive-aggressive, at most c; sgd has one that decreases"`
	Loss   string  `opt:"loss" default:"auto" enum:"auto,hinge,squared_hinge,logistic,squared,epsilon" doc:"auto: logistic for classes (with pa: hinge), squared for numbers; pa with hinge or epsilon is PA-I, with a square PA-II"`
	Rate   float64 `opt:"rate" default:"0.5" range:"(0,inf)" tune:"log 0.02 5" doc:"size of the steps of nag and sgd"`
	Memory float64 `opt:"memory" default:"0" range:"[0,inf)" doc:"nag: examples after which a gradient is forgotten, for streams that drift; 0 remembers all"`
	L1     float64 `opt:"l1" default:"0" range:"[0,inf)" doc:"weight of the sum of absolute weights"`
	L2     float64 `opt:"l2" alias:"lambda" default:"0" range:"[0,inf)" doc:"ridge weight: that of half the sum of squared weights"`

	C       float64 `opt:"c" default:"0.1" range:"(0,inf)" paper:"C" doc:"pa: aggressiveness, the largest step"`
	Average string  `opt:"average" default:"none" enum:"none,uniform,linear" doc:"the model is the last iterate, or an average over all, evenly or in proportion to the example number"`

	Power   float64 `opt:"power" fixed:"0.5" range:"[0,1]"`     // sgd: the step is rate/t^power at example t; 0 keeps it constant, for streams that drift
	Epsilon float64 `opt:"epsilon" fixed:"0.1" range:"[0,inf)"` // errors up to this size cost nothing, with the loss epsilon
	Bias    float64 `opt:"bias" fixed:"1" range:"[0,inf)"`      // square of a constant feature, whose weight gives the model its bias; 0 for none
}

// Spec registers the learner.
var Spec = algos.Define(algos.SpecInfo{
	Name:    "online",
	Summary: "linear model, one update an example, no buffer: normalised adaptive gradient, passive-aggressive or plain SGD steps",
	When:    "wide or sparse features, hashed text, regression, and rates that no other learner keeps up with; where classes are not linear in the features, take a kernel learner",
	Paper:   "Ross, Mineiro, Langford, Normalized online learning, UAI 2013, algorithm 2 (nag); Crammer et al., Online passive-aggressive algorithms, JMLR 7 (2006), fig. 1 (pa); Karampatziakis, Langford, Online importance weight aware updates, UAI 2011 (implicit steps)",
	Kind:    algos.Linear,
	Tasks:   []algos.Task{algos.Classify, algos.Regress},
	Presets: map[string]map[string]string{
		"pa1": {"update": "pa", "loss": "hinge"},
		"pa2": {"update": "pa", "loss": "squared_hinge"},
	},
}, check, newLearner, model.DecodeLinear)

// check returns an error for values that a range cannot exclude.
func check(o *options) error {
	if o.Memory > 0 && o.Memory < 2 {
		return fmt.Errorf("option memory = %g is neither 0 nor at least 2", o.Memory)
	}
	return nil
}

var losses = map[string]loss{"hinge": hinge, "squared_hinge": squaredHinge, "logistic": logistic, "squared": squared, "epsilon": epsilon}

// lossOf returns the loss for a task.
func lossOf(o options, task algos.Task) (loss, error) {
	k, given := losses[o.Loss]
	switch regress := task == algos.Regress; {
	case given && regress && k < squared:
		return k, fmt.Errorf("loss %s is not for task regress; squared and epsilon are", o.Loss)
	case given:
		return k, nil
	case regress:
		return squared, nil
	case o.Update == "pa":
		return hinge, nil
	}
	return logistic, nil
}
