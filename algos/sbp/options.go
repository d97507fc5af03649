package sbp

import (
	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/kernel"
)

// options are the learner's options; their tags document them.
type options struct {
	C      float64 `opt:"c" default:"1" range:"(0,inf)" tune:"log 0.1 1000" doc:"weight of the losses as in LIBSVM: lambda = 1/(C n) for a buffer of n examples; used while lambda and nu are auto"`
	Lambda float64 `opt:"lambda" default:"auto" range:"(0,inf)" auto:"1/(C n)" paper:"lambda, eq 2.2" doc:"ridge weight, from which nu is found; used while nu is auto"`
	kernel.Options
	Buffer  int    `opt:"buffer" default:"10000" range:"[1,1e8]" paper:"n" doc:"examples held"`
	Keep    string `opt:"keep" default:"window" enum:"window,reservoir,balanced" doc:"the examples held: the last ones, a uniform sample of all, or one with equal shares of the classes"`
	Updates int    `opt:"updates" default:"16" range:"[1,1e6]" doc:"updates a step"`

	Intercept bool    `opt:"intercept" fixed:"true"`                                        // give the model an unregularised bias, eq 3.9
	Bias      float64 `opt:"bias" fixed:"0" range:"[0,inf)"`                                // constant added to the kernel, which gives the model a regularised bias; 0 for none
	Frozen    int     `opt:"frozen" fixed:"10000" range:"[1,1e8]"`                          // most frozen examples; if there are more, the oldest is removed
	Every     int     `opt:"every" fixed:"16" range:"[1,1e8]"`                              // examples per step
	Final     float64 `opt:"final" fixed:"0.5" range:"[0,1000]"`                            // updates at the end of a bounded stream, as a multiple of the stored examples
	Restart   float64 `opt:"restart" fixed:"0.25" range:"[0,1000]"`                         // arrivals between restarts of average and step size, as a multiple of the stored examples; 0: never
	CacheMB   int     `opt:"cache" fixed:"24" range:"[0,1e6]"`                              // size limit of the cache of kernel rows, MiB; does not change results
	Nu        float64 `opt:"nu" fixed:"auto" range:"[0,inf)" auto:"what belongs to lambda"` // slack per example for a function of norm 1, which bounds the slack instead of weighting it
	Rate      float64 `opt:"rate" fixed:"1" range:"(0,1000]"`                               // factor of the step size 1/sqrt(t max K(x,x))
	Classes   string  `opt:"classes" fixed:"alternate" enum:"coin,alternate"`               // with an intercept: the class of the next example is drawn by a fair coin, or alternates, with less noise

	_ struct{} `opt:"eviction" fixed:"freeze"`
	_ struct{} `opt:"average" fixed:"uniform"`
	_ struct{} `opt:"certify" fixed:"0"`
}

// A restart keeps half of the progress: the average keeps this share of its weight, and
// the step count for the step size is multiplied by this factor.
const (
	retain = 0.5
	shrink = 0.5
)

// Spec registers the learner.
var Spec = algos.Define(algos.SpecInfo{
	Name:    "sbp",
	Summary: "kernelized stochastic batch perceptron: steps on the worst classified part of a buffer, with an unregularised bias",
	When:    "a kernel model of the last examples, or of a bounded sample, at few kernel evaluations; the buffer bounds memory and support",
	Paper:   "Cotter, Shalev-Shwartz, Srebro: The Kernelized Stochastic Batch Perceptron, ICML 2012, Algorithm 1",
	Kind:    algos.Kernel,
	Gone: map[string]string{
		"pilot":  "nu follows lambda while the stream goes on",
		"burn":   "a restart of the average drops what came before",
		"retain": "the average keeps half of its weight at a restart",
		"shrink": "the step count is halved at a restart",
	},
	Presets: map[string]map[string]string{
		"paper": {"nu": "0.001", "classes": "coin", "intercept": "false", "restart": "0", "final": "10"},
		// Few examples, with many updates before they leave.
		"drift": {"buffer": "1000", "frozen": "1000", "updates": "64", "restart": "0.001"},
	},
}, check, newLearner, expansion.Decode)

func check(o *options) error { return o.Check() }
