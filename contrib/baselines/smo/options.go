package smo

import (
	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/kernel"
)

// options are the learner's options; the tags say what they mean.
type options struct {
	C float64 `opt:"c" default:"1" range:"(0,inf)" tune:"log 0.1 1000" doc:"weight of the losses as in LIBSVM: lambda = 1/(C n) for a buffer of n examples; used while lambda is auto"`
	kernel.Options
	Buffer int `opt:"buffer" default:"5000" range:"[1,1e8]" paper:"n" doc:"examples held"`

	Lambda    float64 `opt:"lambda" fixed:"auto" range:"(0,inf)" auto:"1/(C n)"`   // ridge weight
	Keep      string  `opt:"keep" fixed:"window" enum:"window,reservoir,balanced"` // the examples held: the last ones, a uniform sample of all, or one with equal shares of the classes
	Updates   int     `opt:"updates" fixed:"32" range:"[0,1e8]"`                   // most iterations a step
	Intercept bool    `opt:"intercept" fixed:"true"`                               // give the model an unregularised bias, for which coefficients change in pairs
	Bias      float64 `opt:"bias" fixed:"0" range:"[0,inf)"`                       // constant added to the kernel, which gives the model a regularised bias; 0 for none
	Every     int     `opt:"every" fixed:"16" range:"[1,1e8]"`                     // examples a step
	Final     float64 `opt:"final" fixed:"20" range:"[0,1e5]"`                     // most iterations at the end of a bounded stream, as a multiple of the examples held
	Tol       float64 `opt:"tol" alias:"tolerance" fixed:"0.001" range:"[1e-9,1]"` // violation of the optimality conditions that is accepted, in units of the margin
	CacheMB   int     `opt:"cache" fixed:"256" range:"[0,1e6]"`                    // bound on the cache of kernel rows, MiB; changes no result
}

// Spec registers the learner.
var Spec = algos.Define(algos.SpecInfo{
	Name:    "smo",
	Summary: "kernel SVM by sequential minimal optimisation on the examples of a buffer",
	When:    "a baseline: the exact optimum on the buffer, as LIBSVM finds it, kept up to date as examples come and go",
	Paper:   "Fan, Chen, Lin: Working Set Selection Using Second Order Information for Training SVM, JMLR 6 (2005), WSS 2",
	Kind:    algos.Kernel,
	Presets: map[string]map[string]string{"paper": {"updates": "1000000", "final": "100000"}},
}, check, newLearner, expansion.Decode)

func check(o *options) error { return o.Check() }
