package tsgs3vm

import (
	"fmt"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/rffmodel"
)

// shared are the options of all learners of the family.
type shared struct {
	C        float64 `opt:"c" default:"auto" range:"(0,inf)" auto:"chosen by cross-validation" doc:"weight of the labelled losses as in LIBSVM: lambda = 1/(C n) for n labels; used while lambda is auto"`
	Lambda   float64 `opt:"lambda" default:"auto" range:"(0,inf)" auto:"1/(C n)" paper:"1/C" doc:"ridge weight; the paper's C is 1/lambda"`
	Kernel   string  `opt:"kernel" default:"rbf" enum:"rbf,laplacian" paper:"rbf" doc:"kernel of the random features: exp(-gamma |x-z|^2), or exp(-gamma |x-z|) with the l1 norm"`
	Gamma    float64 `opt:"gamma" default:"auto" range:"(0,1e12]" auto:"chosen by cross-validation" paper:"sigma" doc:"kernel width"`
	Features int     `opt:"features" default:"4096" range:"[1,1048576]" doc:"random features of the model; with fresh ones this is block times window instead"`
	Labels   int     `opt:"labels" default:"2000" range:"[1,1e6]" paper:"all" doc:"labelled examples held"`
	Keep     string  `opt:"keep" default:"reservoir" enum:"reservoir,balanced,window" doc:"the labelled examples held: a uniform sample of all, one with equal shares of the classes, or the last ones"`

	Bias        float64 `opt:"bias" fixed:"1" range:"[0,1e6]"`                                                 // constant added to the kernel, which gives the model a regularised bias; 0 for none
	Tuning      int     `opt:"tuning" fixed:"800" range:"[0,2000]"`                                            // C and gamma, if auto, are chosen again whenever the labels have doubled, up to this number; 0: c = 1, gamma by distances
	Temperature float64 `opt:"temperature" alias:"average" fixed:"0.4" range:"[0,100]"`                        // dual: temperature of the mean over nearly best settings, in standard errors of cross-validation; 0 uses only the best setting
	Cache       int     `opt:"cache" fixed:"256" range:"[0,1048576]"`                                          // size limit of the cache of frequencies, MiB; others, and all beyond 1,024 features, are redrawn; does not change results
	Solver      string  `opt:"solver" fixed:"dual" enum:"dual,sgd"`                                            // dual coordinate ascent, with implicit steps for unlabelled examples; or the paper's stochastic gradient steps
	Draw        string  `opt:"draw" fixed:"fixed" enum:"fixed,fresh"`                                          // has no effect; presets of earlier versions set it
	Block       int     `opt:"block" fixed:"256" range:"[1,65536]"`                                            // features in a block; a step of sgd adds or changes one block
	Window      int     `opt:"window" fixed:"auto" range:"[1,1048576]" auto:"until little is left of a block"` // number of fresh blocks to keep
	Schedule    string  `opt:"schedule" alias:"rate" fixed:"constant" enum:"constant,decay"`                   // sgd: the size of step t is step, or step/t

	_ struct{} `opt:"hinge" fixed:"hinge"`
}

// options are the options of tsgs3vm; their tags document them.
type options struct {
	shared
	Rho float64 `opt:"rho" default:"auto" range:"[0,1e6]" auto:"0.1 is tried as well as 0" doc:"weight of the unlabelled losses relative to the labelled ones: C* = rho C"`

	Serve   string  `opt:"serve" fixed:"auto" enum:"auto,supervised,semi"`                                    // the model served: auto serves the one without unlabelled examples until one with them is significantly better
	Cluster float64 `opt:"cluster" fixed:"auto" range:"[0,1e6]" auto:"0 to 10 are tried by cross-validation"` // dual: weight of the cluster kernel of unlabelled examples; used while all labels are stored and there are at most tuning of them
	BatchL  int     `opt:"batch_labelled" fixed:"64" range:"[1,65536]"`                                       // labelled examples per step; sgd uses all stored labels if there are fewer
	BatchU  int     `opt:"batch_unlabelled" fixed:"256" range:"[1,65536]"`                                    // unlabelled examples per step
	Recent  int     `opt:"recent" fixed:"2048" range:"[1,1e6]"`                                               // dual: size of the uniform sample of unlabelled examples, used when the features change and at the end
	Step    float64 `opt:"step" fixed:"0.05" range:"(0,1e6]"`                                                 // size of a step
	Ratio   bool    `opt:"ratio" fixed:"false"`                                                               // C* = C n_l/n_u instead, which goes to 0 as more unlabelled examples come

	_ struct{} `opt:"loss" fixed:"shg"`
	_ struct{} `opt:"printed" fixed:"false"`
}

// dsgOptions are the options of dsg, which ignores unlabelled examples.
type dsgOptions struct {
	shared

	Batch int     `opt:"batch" alias:"batch_labelled" fixed:"64" range:"[1,65536]"` // examples per step
	Step  float64 `opt:"step" fixed:"0.1" range:"(0,1e6]"`                          // sgd: size of a step
}

func (d *dsgOptions) options() *options {
	return &options{shared: d.shared, Step: d.Step, BatchL: d.Batch, BatchU: 1, Recent: 1, Serve: "supervised"}
}

// level is the significance level of the test that lets a model with unlabelled
// examples take over: one false alarm in 20, for all arms together.
const level = 0.05

var gone = map[string]string{
	"t0":      "steps decrease in the preset paper of dsg only",
	"horizon": "steps decrease in the preset paper of dsg only",
	"shift":   "the ramp is flat where |f| < 0.3",
	"level":   "the test for unlabelled examples is at the level 0.05",
	"balance": "there is no balance constraint; keep = balanced balances the labelled examples",
	"cstar":   "set rho: C* = rho C",
}

const paperTSGS3VM = "Geng, Gu, Li, Shi, Zheng, Huang, Scalable Semi-Supervised SVM via Triply Stochastic Gradients, IJCAI 2019"

// Spec registers tsgs3vm.
var Spec = algos.Define(algos.SpecInfo{
	Name:    "tsgs3vm",
	Summary: "semi-supervised kernel SVM on random features: learns from labelled and unlabelled examples in bounded memory",
	When:    "few labels among many examples; it serves its supervised twin unless unlabelled examples are seen to help",
	Paper:   paperTSGS3VM,
	Kind:    algos.Features,
	Gone:    gone,
	Presets: map[string]map[string]string{
		"paper": {
			"lambda": "0.1", "bias": "0", "tuning": "0", "cluster": "0", "solver": "sgd", "draw": "fresh", "step": "0.1", "ratio": "true",
			"serve": "semi", "batch_labelled": "256", "labels": "1000",
		},
	},
}, check, func(e algos.Env, o options) (algos.Learner, error) { return newLearner(e, o) }, rffmodel.Decode)

// DSG registers dsg.
var DSG = algos.Define(algos.SpecInfo{
	Name:    "dsg",
	Summary: "kernel SVM on random features, from labelled examples",
	When:    "large labelled streams where a model of fixed size and constant time an example count; scs is more accurate while its support vectors fit",
	Paper:   "Dai, Xie, He, Liang, Raj, Balcan, Song, Scalable Kernel Methods via Doubly Stochastic Gradients, NIPS 2014",
	Kind:    algos.Features,
	Classes: true,
	Gone:    gone,
	Presets: map[string]map[string]string{
		"paper": {"lambda": "0.1", "bias": "0", "tuning": "0", "solver": "sgd", "draw": "fresh", "schedule": "decay", "step": "1"},
	},
}, func(d *dsgOptions) error { return check(d.options()) }, func(e algos.Env, d dsgOptions) (algos.Learner, error) {
	if e.Classes > 2 {
		return newClasses(e, *d.options())
	}
	return newLearner(e, *d.options())
}, rffmodel.DecodeHeads)

// check returns an error for settings that the ranges cannot exclude.
func check(o *options) error {
	if o.Draw != "fresh" && o.Features%min(o.Block, o.Features) != 0 {
		return fmt.Errorf("option features = %d is not a multiple of block = %d", o.Features, o.Block)
	}
	if o.Schedule != "decay" && o.Step > 1 {
		return fmt.Errorf("option step = %g exceeds 1, which only schedule = decay allows", o.Step)
	}
	return nil
}
