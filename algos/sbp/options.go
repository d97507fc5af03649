package sbp

import (
	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/internal/hinge"
	"github.com/streamsvm/streamsvm/internal/kernel"
)

// Options are the learner's options; the tags say what they mean.
type Options struct {
	C      float64 `opt:"c" default:"1" range:"(0,inf)" tune:"log 0.1 1000" doc:"weight of the losses as in LIBSVM: lambda = 1/(C n) for a buffer of n examples; used while lambda and nu are auto"`
	Lambda float64 `opt:"lambda" default:"auto" range:"(0,inf)" auto:"1/(C n)" paper:"lambda, eq 2.2" doc:"ridge weight, from which nu is found; used while nu is auto"`
	Nu     float64 `opt:"nu" default:"auto" range:"[0,inf)" auto:"what belongs to lambda" paper:"nu, eq 2.3" doc:"slack an example for a function of norm 1: the hyper-parameter of the slack-constrained problem"`
	Pilot  int     `opt:"pilot" default:"0" range:"[0,4000]" paper:"nu from an optimum known beforehand" doc:"with nu auto: examples of a pilot solution by dual ascent that fixes nu; 0 adapts nu at each restart of the average instead"`

	hinge.KernelOptions
	Bias      float64 `opt:"bias" default:"0" range:"[0,inf)" doc:"constant added to the kernel, which gives the model a regularised bias; 0 for none"`
	Intercept bool    `opt:"intercept" default:"true" paper:"both" doc:"give the model an unregularised bias, eq 3.9"`

	Classes string `opt:"classes" default:"alternate" enum:"coin,alternate" paper:"unreported" doc:"with an intercept: which class the next example is drawn from, by a fair coin or in turns, which keeps the random walk of the mean response out of the steps"`

	Buffer   int    `opt:"buffer" default:"10000" range:"[1,100000000]" paper:"n" doc:"examples held"`
	Keep     string `opt:"keep" default:"window" enum:"window,reservoir,balanced" paper:"absent" doc:"which examples are held: the last ones, a uniform sample of all, or one with equal shares of the classes"`
	Eviction string `opt:"eviction" default:"freeze" enum:"remove,freeze" paper:"absent" doc:"what becomes of an example's share of the model as it leaves the buffer: it is taken out, with a new average, or stays as it is without taking part in further steps, which is better unless there are several updates for each arrival"`
	Frozen   int    `opt:"frozen" default:"10000" range:"[1,100000000]" doc:"most examples frozen; beyond that the oldest is taken out"`

	Every   int     `opt:"every" default:"16" range:"[1,100000000]" doc:"examples a step"`
	Updates int     `opt:"updates" default:"16" range:"[1,1000000]" doc:"updates a step"`
	Final   float64 `opt:"final" default:"0.5" range:"[0,1000]" paper:"T/n" doc:"updates at the end of a bounded stream, as a multiple of the examples held"`
	Rate    float64 `opt:"rate" default:"1" range:"(0,1000]" paper:"1" doc:"factor of the step size 1/sqrt(t max K(x,x))"`
	Restart float64 `opt:"restart" default:"0.25" range:"[0,1000]" paper:"never" doc:"the average and the step size are restarted once so many examples have arrived, as a multiple of those held, or with eviction = remove once a support vector has left; 0 for never"`
	Retain  float64 `opt:"retain" default:"0.5" range:"[0,1]" doc:"weight that the average keeps at a restart; 0 begins a new one"`
	Shrink  float64 `opt:"shrink" default:"0.5" range:"(0,1]" doc:"factor of the step count in the step size at a restart"`
	Average string  `opt:"average" default:"uniform" enum:"uniform,linear" paper:"uniform" doc:"the model is the average of all iterates, evenly or in proportion to their number since the last restart"`
	Burn    int     `opt:"burn" default:"0" range:"[0,1000000000]" paper:"T_0" doc:"first updates that are left out of the average"`

	Certify int `opt:"certify" default:"0" range:"[0,1000000000]" paper:"absent" doc:"updates between certificates, each of which takes as many kernel rows as there are examples near the margin; 0 for none"`
	CacheMB int `opt:"cache" default:"256" range:"[0,1000000]" doc:"bound on the cache of kernel rows, MiB; changes no result"`
}

// Spec registers the learner.
var Spec = algos.Define(algos.SpecInfo{
	Name:    "sbp",
	Summary: "kernelized stochastic batch perceptron: steps on the worst classified part of a buffer, with an unregularised bias",
	When:    "a kernel model of the last examples, or of a bounded sample, at few kernel evaluations; the buffer bounds memory and support",
	Paper:   "Cotter, Shalev-Shwartz, Srebro: The Kernelized Stochastic Batch Perceptron, ICML 2012, Algorithm 1",
	Kind:    algos.Kernel,
	Presets: map[string]map[string]string{
		"paper": {"nu": "0.001", "classes": "coin", "intercept": "false", "restart": "0", "final": "10"},
		// Few examples, each of which is learned from thoroughly before it goes.
		"drift": {"buffer": "1000", "frozen": "1000", "updates": "64", "restart": "0.001"},
	},
}, check, newLearner, kernel.DecodeExpansion)

func check(o *Options) error { return o.Check() }
