package tsgs3vm

import (
	"fmt"

	"github.com/streamsvm/streamsvm/algos"
)

// Options are the learner's options; the tags say what they mean.
type Options struct {
	C       float64 `opt:"c" default:"auto" range:"(0,inf)" auto:"chosen by cross-validation on the labels so far" doc:"weight of the labelled losses as in LIBSVM: lambda = 1/(C n) as the number n of labels grows; used while lambda is auto"`
	Lambda  float64 `opt:"lambda" default:"auto" range:"(0,inf)" auto:"1/(C n)" paper:"1/C" doc:"ridge weight against the mean of the labelled losses; the paper's C is 1/lambda"`
	Kernel  string  `opt:"kernel" default:"rbf" enum:"rbf,laplacian" paper:"rbf" doc:"kernel whose random features are drawn: exp(-gamma |x-z|^2), or with the l1 norm exp(-gamma |x-z|)"`
	Gamma   float64 `opt:"gamma" default:"auto" range:"(0,1e12]" auto:"chosen by cross-validation on the labels so far" paper:"sigma" doc:"kernel width"`
	Bias    float64 `opt:"bias" default:"1" range:"[0,1e6]" paper:"absent" doc:"constant added to the kernel, which gives the model a regularised bias; 0 for none"`
	Tuning  int     `opt:"tuning" default:"800" range:"[0,2000]" paper:"absent" doc:"c and gamma, where they are auto, are chosen anew whenever the number of labels has doubled, up to this number; 0 takes c = 1 and gamma = 1/median squared distance"`
	Average float64 `opt:"average" default:"0.4" range:"[0,100]" paper:"absent" doc:"dual: temperature, in standard errors, of the mean over all settings of c and cluster that cross-validation finds nearly as good as the best; 0 takes the best alone"`

	Solver   string `opt:"solver" default:"dual" enum:"dual,sgd" paper:"sgd" doc:"dual: coordinate ascent on the labels beside implicit steps on unlabelled minibatches; sgd: the paper's stochastic gradient steps"`
	Features int    `opt:"features" default:"4096" range:"[1,1048576]" doc:"random features of the model; with fresh ones this is block times window instead"`
	Block    int    `opt:"block" default:"256" range:"[1,65536]" paper:"m" doc:"features in a block, which one step of sgd adds or changes"`
	Draw     string `opt:"draw" default:"fixed" enum:"fixed,recycled,fresh" paper:"fresh" doc:"sgd: all features change in each step; or one block, in turn; or a step draws a block that no step has used"`
	Window   int    `opt:"window" default:"auto" range:"[1,1048576]" auto:"as many as a constant step leaves more than 1e-6 of, else no bound" paper:"unbounded" doc:"fresh blocks that are kept"`

	Rho     float64 `opt:"rho" default:"auto" range:"[0,1e6]" auto:"0.1 is tried beside 0" doc:"weight of the unlabelled losses relative to the labelled ones: C* = rho C"`
	Cluster float64 `opt:"cluster" default:"auto" range:"[0,1e6]" auto:"0, 0.3, 1, 3 and 10 are tried by cross-validation on the labels" paper:"absent" doc:"dual: weight of the cluster kernel, which unlabelled examples make, against the kernel; 0 for none; used while all labels are held and they are no more than tuning"`
	CStar   float64 `opt:"cstar" default:"auto" range:"[0,1e12]" auto:"rho C" paper:"C*" doc:"weight of the mean unlabelled loss, as an absolute number"`
	Ratio   bool    `opt:"ratio" default:"false" paper:"true" doc:"C* = C n_l/n_u instead, which vanishes as unlabelled examples go on coming"`
	Loss    string  `opt:"loss" default:"shg" enum:"shg,sshg,ramp,da" paper:"u" doc:"loss of unlabelled examples: max(0,1-|f|); half its square; the symmetric ramp; exp(-5 f^2)"`
	Shift   float64 `opt:"shift" default:"-0.3" range:"(-1,0]" paper:"s" doc:"the ramp is flat where |f| < -shift"`
	Print   bool    `opt:"printed" default:"false" paper:"true" doc:"use the derivatives as printed, which lack the sign of f: for demonstration"`
	Hinge   string  `opt:"hinge" default:"hinge" enum:"hinge,huber" doc:"sgd: loss of labelled examples; the Huber hinge is smooth"`
	Balance float64 `opt:"balance" default:"0" range:"[0,1]" paper:"absent" doc:"dual: the share by which each unlabelled minibatch moves the mean decision on it towards the mean label; 0 for no balance constraint"`
	Serve   string  `opt:"serve" default:"auto" enum:"auto,supervised,semi" paper:"semi" doc:"which model is served: auto serves the supervised twin until one that uses unlabelled examples is significantly better on labels it has not learned"`
	Level   float64 `opt:"level" default:"0.05" range:"(0,0.5]" paper:"absent" doc:"level of that test"`

	Step    float64 `opt:"step" default:"0.05" range:"(0,1e6]" paper:"theta or gamma" doc:"step size, or its numerator"`
	Rate    string  `opt:"rate" default:"constant" enum:"constant,decay,horizon" doc:"sgd: step; step/(t+t0); step T^(-2/3)"`
	T0      float64 `opt:"t0" default:"0" range:"[0,1e12]" doc:"t0 of rate=decay"`
	Horizon int     `opt:"horizon" default:"1000" range:"[1,1000000000]" paper:"T" doc:"T of rate=horizon"`

	BatchL int    `opt:"batch-labelled" default:"64" range:"[1,65536]" paper:"256" doc:"labelled examples a step; sgd takes the whole pool where that is smaller"`
	BatchU int    `opt:"batch-unlabelled" default:"256" range:"[1,65536]" paper:"256" doc:"unlabelled examples a step"`
	Labels int    `opt:"labels" default:"2000" range:"[1,1000000]" paper:"all" doc:"labelled examples kept"`
	Keep   string `opt:"keep" default:"reservoir" enum:"reservoir,balanced,window" doc:"which labelled examples are kept: a uniform sample of all, one with equal shares of the classes, or the last ones"`
	Recent int    `opt:"recent" default:"2048" range:"[1,1000000]" paper:"absent" doc:"dual: unlabelled examples kept as a uniform sample, to learn from again when the features change and at the end"`
	Cache  int    `opt:"cache" default:"256" range:"[0,1048576]" doc:"MiB that may be spent on keeping frequencies, which are drawn again otherwise"`
}

// DSGOptions are those of dsg, where there are no unlabelled examples.
type DSGOptions struct {
	C       float64 `opt:"c" default:"auto" range:"(0,inf)" auto:"chosen by cross-validation on the labels so far" doc:"weight of the losses as in LIBSVM: lambda = 1/(C n) as the number n of labels grows; used while lambda is auto"`
	Lambda  float64 `opt:"lambda" default:"auto" range:"(0,inf)" auto:"1/(C n)" doc:"ridge weight against the mean of the losses"`
	Kernel  string  `opt:"kernel" default:"rbf" enum:"rbf,laplacian" doc:"kernel whose random features are drawn: exp(-gamma |x-z|^2), or with the l1 norm exp(-gamma |x-z|)"`
	Gamma   float64 `opt:"gamma" default:"auto" range:"(0,1e12]" auto:"chosen by cross-validation on the labels so far" paper:"sigma" doc:"kernel width"`
	Bias    float64 `opt:"bias" default:"1" range:"[0,1e6]" paper:"absent" doc:"constant added to the kernel, which gives the model a regularised bias; 0 for none"`
	Tuning  int     `opt:"tuning" default:"800" range:"[0,2000]" paper:"absent" doc:"c and gamma, where they are auto, are chosen anew whenever the number of labels has doubled, up to this number; 0 takes c = 1 and gamma = 1/median squared distance"`
	Average float64 `opt:"average" default:"0.4" range:"[0,100]" paper:"absent" doc:"dual: temperature, in standard errors, of the mean over all settings of c and cluster that cross-validation finds nearly as good as the best; 0 takes the best alone"`

	Solver   string `opt:"solver" default:"dual" enum:"dual,sgd" paper:"sgd" doc:"dual: coordinate ascent, on each example as it comes and on the kept ones again; sgd: doubly stochastic gradient steps"`
	Features int    `opt:"features" default:"4096" range:"[1,1048576]" doc:"random features of the model; with fresh ones this is block times window instead"`
	Block    int    `opt:"block" default:"256" range:"[1,65536]" doc:"features in a block, which one step of sgd adds or changes"`
	Draw     string `opt:"draw" default:"fixed" enum:"fixed,recycled,fresh" paper:"fresh" doc:"sgd: all features change in each step; or one block, in turn; or a step draws a block that no step has used"`
	Window   int    `opt:"window" default:"auto" range:"[1,1048576]" auto:"as many as a constant step leaves more than 1e-6 of, else no bound" paper:"unbounded" doc:"fresh blocks that are kept"`
	Hinge    string `opt:"hinge" default:"hinge" enum:"hinge,huber" doc:"sgd: the loss; the Huber hinge is smooth"`

	Step    float64 `opt:"step" default:"0.1" range:"(0,1e6]" paper:"theta" doc:"sgd: step size, or its numerator"`
	Rate    string  `opt:"rate" default:"constant" enum:"constant,decay,horizon" paper:"decay" doc:"sgd: step; step/(t+t0); step T^(-2/3)"`
	T0      float64 `opt:"t0" default:"0" range:"[0,1e12]" doc:"t0 of rate=decay"`
	Horizon int     `opt:"horizon" default:"1000" range:"[1,1000000000]" doc:"T of rate=horizon"`

	Batch  int    `opt:"batch" default:"64" range:"[1,65536]" doc:"examples a step"`
	Labels int    `opt:"labels" default:"2000" range:"[1,1000000]" doc:"examples kept"`
	Keep   string `opt:"keep" default:"reservoir" enum:"reservoir,balanced,window" doc:"which examples are kept: a uniform sample of all, one with equal shares of the classes, or the last ones"`
	Cache  int    `opt:"cache" default:"256" range:"[0,1048576]" doc:"MiB that may be spent on keeping frequencies, which are drawn again otherwise"`
}

func (d *DSGOptions) options() *Options {
	return &Options{
		C: d.C, Lambda: d.Lambda, Kernel: d.Kernel, Gamma: d.Gamma, Bias: d.Bias, Tuning: d.Tuning, Average: d.Average,
		Solver: d.Solver, Features: d.Features, Block: d.Block, Draw: d.Draw, Window: d.Window, Hinge: d.Hinge,
		Step: d.Step, Rate: d.Rate, T0: d.T0, Horizon: d.Horizon,
		BatchL: d.Batch, BatchU: 1, Labels: d.Labels, Keep: d.Keep, Recent: 1, Cache: d.Cache,
		Loss: "shg", Serve: "supervised", Level: 0.05,
	}
}

const paperTSGS3VM = "Geng, Gu, Li, Shi, Zheng, Huang, Scalable Semi-Supervised SVM via Triply Stochastic Gradients, IJCAI 2019"

// Spec registers tsgs3vm.
var Spec = algos.Define(algos.SpecInfo{
	Name:    "tsgs3vm",
	Summary: "semi-supervised kernel SVM on random features: learns from labelled and unlabelled examples in bounded memory",
	When:    "few labels among many examples; it serves its supervised twin unless unlabelled examples are seen to help",
	Paper:   paperTSGS3VM,
	Kind:    algos.Features,
	Presets: map[string]map[string]string{
		"paper": {
			"lambda": "0.1", "bias": "0", "tuning": "0", "cluster": "0", "solver": "sgd", "draw": "fresh", "step": "0.1", "ratio": "true",
			"serve": "semi", "batch-labelled": "256", "labels": "1000",
		},
	},
}, check, newLearner, decodeModel)

// DSG registers dsg.
var DSG = algos.Define(algos.SpecInfo{
	Name:    "dsg",
	Summary: "kernel SVM on random features, from labelled examples",
	When:    "large labelled streams where a model of fixed size and constant time an example count; scs is more accurate while its support vectors fit",
	Paper:   "Dai, Xie, He, Liang, Raj, Balcan, Song, Scalable Kernel Methods via Doubly Stochastic Gradients, NIPS 2014",
	Kind:    algos.Features,
	Presets: map[string]map[string]string{
		"paper": {"lambda": "0.1", "bias": "0", "tuning": "0", "solver": "sgd", "draw": "fresh", "rate": "decay", "step": "1"},
	},
}, func(d *DSGOptions) error { return check(d.options()) }, func(e algos.Env, d DSGOptions) (algos.Learner, error) {
	return newLearner(e, *d.options())
}, decodeModel)

// FRS3VM registers frs3vm.
var FRS3VM = algos.Define(algos.SpecInfo{
	Name:    "frs3vm",
	Summary: "semi-supervised kernel SVM by stochastic gradient steps on a fixed set of random features",
	When:    "the baseline that tsgs3vm is compared with",
	Paper:   paperTSGS3VM + ", section 5",
	Kind:    algos.Features,
	Presets: map[string]map[string]string{
		"default": {"solver": "sgd", "draw": "fixed", "serve": "semi", "rho": "0.1", "rate": "decay", "step": "1", "batch-labelled": "256"},
		"paper": {
			"lambda": "0.1", "bias": "0", "tuning": "0", "solver": "sgd", "draw": "fixed", "step": "0.1", "ratio": "true",
			"serve": "semi", "features": "256", "batch-labelled": "256", "labels": "1000",
		},
	},
}, check, newLearner, decodeModel)

// check refuses what the ranges cannot.
func check(o *Options) error {
	if o.Draw != "fresh" && o.Features%min(o.Block, o.Features) != 0 {
		return fmt.Errorf("option features = %d is no multiple of block = %d", o.Features, o.Block)
	}
	if o.Rate != "decay" && o.Step > 1 {
		return fmt.Errorf("option step = %g exceeds 1, which only rate = decay allows", o.Step)
	}
	return nil
}
