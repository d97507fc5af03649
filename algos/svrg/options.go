package svrg

import (
	"fmt"
	"maps"
	"math"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/internal/finitesum"
)

// options are the options of all methods of the family; their tags document them.
type options struct {
	Loss     string  `opt:"loss" default:"auto" enum:"auto,squared,hinge,logistic" paper:"squared" doc:"squared, the hinge smoothed by a parabola, or logistic; auto is squared in regression and hinge in classification"`
	C        float64 `opt:"c" default:"1" range:"(0,inf)" tune:"log 0.01 1000" doc:"weight of the losses: lambda = 1/(C n) for a sample of n examples; used while lambda is auto"`
	Lambda   float64 `opt:"lambda" default:"auto" range:"[0,inf)" auto:"1/(C n)" paper:"lambda1" doc:"ridge weight"`
	L1       float64 `opt:"l1" default:"0" range:"[0,inf)" paper:"lambda2" doc:"Lasso weight, which makes weights 0"`
	Buffer   int     `opt:"buffer" default:"10000" range:"[1,1e8]" paper:"n" doc:"examples held"`
	Keep     string  `opt:"keep" default:"window" enum:"window,reservoir,balanced" doc:"the examples held: the last ones, a uniform sample of all, or one with equal shares of the classes"`
	Refresh  float64 `opt:"refresh" default:"0.1" range:"(0,100]" doc:"arrivals between refreshes of the model, as a multiple of the examples held"`
	Features int     `opt:"dims" alias:"dim" default:"4194304" range:"[1,16777216]" doc:"most features; memory is about 100 bytes for each up to the last one seen"`

	Bias   float64 `opt:"bias" fixed:"1" range:"[0,inf)"`                                                       // square of a constant feature that gives the model a bias, regularised by lambda but not by l1; 0 for none
	Epochs int     `opt:"epochs" fixed:"1" range:"[1,1e5]"`                                                     // epochs per refresh
	Final  int     `opt:"final" fixed:"30" range:"[0,1e6]"`                                                     // most epochs at the end of a bounded stream
	Tol    float64 `opt:"tol" alias:"tolerance" fixed:"1e-6" range:"[0,1]"`                                     // the final epochs end once the certificate is within this share of the objective
	Rate   float64 `opt:"rate" fixed:"auto" range:"(0,100]" auto:"the best usual one of the method, 0.25 to 1"` // step size times L, the largest curvature of an example's loss
	Draw   string  `opt:"draw" fixed:"long" enum:"long,uniform"`                                                // draws examples for steps: long ones more often with less weight, so that the mean curvature matters; or uniformly

	Decrease float64 `opt:"decrease" fixed:"0.001" range:"[0,1]"` // share of steps that scale the point so that F decreases, at least one per epoch; 0: only momentum
	Theta    string  `opt:"theta" fixed:"auto" enum:"auto,gram"`  // how the scale is found: from the Gram matrix; auto: only up to 64 coordinates, otherwise in the first step of an epoch

	_ struct{} `opt:"variant" fixed:"auto"`
	_ struct{} `opt:"batch" fixed:"1"`
}

// width is the width of the parabola that smooths the hinge, in units of the margin,
// as in the usual smoothed hinge.
const width = 1

// sigma is 1 minus the momentum, delta the factor of the penalty
// ζ = δη/max(1 − Lη, 0.1) on scales other than 1.
const (
	sigma = .5
	delta = .1
)

var gone = map[string]string{
	"smooth": "the hinge is smoothed over a width of 1; loss chooses another loss",
	"inner":  "an epoch takes a gradient for each example held with saga-sd, two with svrg-sd",
	"sigma":  "the momentum is 0.5",
	"delta":  "the factor of the penalty on scales other than 1 is 0.1",
}

// params returns the solver's parameters for a method. A rate of 0 stands for the
// method's default.
func (o *options) params(m *finitesum.Method, seed uint64) finitesum.Params {
	rate := o.Rate
	if math.IsNaN(rate) {
		rate = 0
	}
	return finitesum.Params{Method: m, Seed: seed, Rate: rate, Weighted: o.Draw == "long", Sigma: sigma, Decrease: o.Decrease, Delta: delta}
}

// lossOf returns the loss for a task.
func lossOf(name string, task algos.Task) (finitesum.Loss, error) {
	l := finitesum.Loss{Width: width}
	if name == "auto" {
		name = "hinge"
		if task == algos.Regress {
			name = "squared"
		}
	}
	if task == algos.Regress && name != "squared" {
		return l, fmt.Errorf("option loss = %q is for classification", name)
	}
	l.Kind = map[string]finitesum.Kind{"squared": finitesum.Squared, "hinge": finitesum.Hinge, "logistic": finitesum.Logistic}[name]
	return l, nil
}

const paper = "Shang, Liu, Zhou, Cheng, Ng, Yoshida: Guaranteed Sufficient Decrease for Stochastic Variance Reduced Gradient Optimization, AISTATS 2018, "

// spec makes the Spec of a method.
func spec(m *finitesum.Method, summary, when, paper string, presets map[string]map[string]string) algos.Spec {
	return algos.Define(algos.SpecInfo{
		Name: m.String(), Summary: summary, When: when, Paper: paper, Kind: algos.Linear,
		Tasks:   []algos.Task{algos.Classify, algos.Regress},
		Presets: presets, Gone: gone,
	}, nil, func(env algos.Env, o options) (algos.Learner, error) { return newLearner(env, m, o) }, model.DecodeLinear)
}

// with returns the presets: paper with further options, and drift for streams that
// change quickly.
func with(more map[string]string) map[string]map[string]string {
	p := map[string]string{"loss": "squared", "draw": "uniform", "bias": "0", "lambda": "0.0001", "final": "100", "tol": "0"}
	maps.Copy(p, more)
	return map[string]map[string]string{
		"paper": p,
		"drift": {"buffer": "500", "refresh": "0.02", "final": "0"},
	}
}

// The learners that the registry lists.
var (
	SD = spec(finitesum.SVRGSD, "linear model by variance-reduced gradients with momentum and sufficient decrease",
		"linear ridge, Lasso and elastic-net models for classification and regression, to an optimum with a certificate, on a window or a sample of the stream",
		paper+"Algorithm 2", with(map[string]string{"theta": "gram", "rate": "1"}))
	SAGASD = spec(finitesum.SAGASD, "linear model by SAGA with momentum and sufficient decrease",
		"as svrg-sd, with a number for each example instead of full gradients",
		paper+"Algorithm 3", with(map[string]string{"theta": "gram"}))
)
