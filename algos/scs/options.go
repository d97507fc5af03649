package scs

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/internal/kernel"
)

// options are the learner's options; their tags document them.
type options struct {
	C      float64 `opt:"c" default:"1" range:"(0,inf)" tune:"log 0.1 1000" doc:"weight of the losses as in LIBSVM: lambda = 1/(C |S|) for a sample S; used while lambda is auto"`
	Lambda float64 `opt:"lambda" default:"auto" range:"(0,inf)" auto:"1/(C |S|)" paper:"eq 1, where it is 1" doc:"ridge weight"`
	kernel.Options
	MaxSample int    `opt:"max_sample" default:"100000" range:"[2,1e8]" paper:"7 (i)" doc:"largest sample S, in examples"`
	Full      string `opt:"full" default:"replace" enum:"stop,replace,window" paper:"7 (i), (ii)" doc:"a full sample stays; or new examples replace old ones that matter little; or always the oldest, for streams that drift"`
	Budget    int    `opt:"budget" default:"20000" range:"[0,1e8]" paper:"7 (iii)" doc:"most support vectors of a model in use, which bounds the sample too; 0 for no limit"`
	TMax      int    `opt:"t_max" default:"8192" range:"[0,1e8]" paper:"#T_k = #S_k" doc:"largest validation sample T, in examples, which bounds the time between models; 0: as large as S"`

	_          struct{} `group:"expert"`
	Bias       float64  `opt:"bias" default:"1" range:"[0,inf)" doc:"constant added to the kernel, which gives the model a regularised bias; 0 for none"`
	Initial    int      `opt:"initial" default:"256" range:"[2,1e6]" paper:"#S_0, unreported" doc:"size of the first sample, in examples"`
	Gain       float64  `opt:"gain" default:"0.002" range:"[0,1]" doc:"the sample grows while a doubling may gain so much accuracy, or a fiftieth of the error if less; 0: always"`
	Gap        float64  `opt:"gap" default:"0.5" range:"(0,100]" doc:"largest duality gap of a model in use, in standard errors of the objective; at the end of a bounded stream a fifth of it"`
	Blocks     int      `opt:"blocks" default:"2000" range:"[1,1e6]" doc:"most blocks of the dual ascent in a step; where they do not suffice, the sample waits"`
	Block      int      `opt:"block" default:"512" range:"[4,4096]" doc:"points in a block"`
	Iterations int      `opt:"iterations" default:"3" range:"[0,1e5]" paper:"1" doc:"conjugate subgradient iterations a step, before the ascent"`
	Final      int      `opt:"final" default:"5" range:"[0,1e6]" paper:"0" doc:"iterations at the end of a bounded stream; with 0, examples pending then stay pending"`
	Margin     float64  `opt:"margin" default:"0.2" range:"[0,inf)" doc:"ascend on points with a margin below 1 + this, then check the others; 0: iterations on the whole sample, without ascent"`
	Reduce     float64  `opt:"reduce" default:"0.05" range:"[0,inf)" doc:"most by which a reduced set may change the decision at a support vector; 0: all support vectors"`
	Shuffle    int      `opt:"shuffle" default:"0" range:"[0,1e8]" paper:"draws are i.i.d." doc:"examples in the buffer that breaks up the order of the stream before draws are taken; 0 for none"`
	CacheMB    int      `opt:"cache" default:"256" range:"[0,1e6]" doc:"bound on the cache of kernel rows, MiB; changes no result"`

	_        struct{} `group:"paper"`
	Geometry string   `opt:"geometry" default:"rkhs" enum:"rkhs,alpha" paper:"alpha; E-12" doc:"metric of directions and steps: the function space or the Euclidean coefficients"`
	Accept   string   `opt:"accept" default:"guard" enum:"guard,ratio,printed,always" paper:"printed; E-2" doc:"when a candidate is the model: with a small gap and no worse on draws; by the paper's test, as a ratio or as printed; or always"`
	Restart  string   `opt:"restart" default:"stage" enum:"never,reject,stall,stage" paper:"never; E-10" doc:"the direction is reset to the negative subgradient: never; after a rejected or null step; a null step; or also when S grows"`
	Growth   string   `opt:"growth" default:"geometric" enum:"fixed,geometric,theorem" paper:"theorem 3.3" doc:"the sample grows by 16 points a step; to twice its size; or as the theorem says"`
	Kappa    float64  `opt:"kappa" default:"10" range:"(0,inf)" paper:"kappa" doc:"approximation constant of theorem growth"`
	Delta0   float64  `opt:"delta_0" default:"auto" range:"(0,inf)" auto:"1 in rkhs, 0.1 in alpha" paper:"delta_0" doc:"first radius of the Wolfe search, from 1e-4 to 50 in rkhs and 1 in alpha"`
}

// Constants of Algorithm 1 and its line search. The paper gives no values; these
// are the usual ones.
const (
	fixedGrowth = 16   // #s_k under fixed growth; so that samples grow slowly, as in its experiments
	doubling    = 2    // ratio of successive sizes under geometric growth: a sum of sizes below twice the last
	failure     = 0.05 // epsilon of Theorem 3.3, the probability that its bound fails
	smallRadius = 1e-4 // delta_min, far below every radius at which a step is accepted
	eta1        = 0.1  // least ratio of the decrease on T to that on S, as in trust-region methods
	eta2        = 1e-3 // a step is a success only where the direction is longer than this times the radius
	radiusRatio = 2    // gamma: factor by which the radius changes
	decrease    = 0.25 // m2 of Algorithm 2: sufficient decrease; below curvature (E-4)
	curvature   = 0.45 // m1 of Algorithm 2
	shortest    = 4    // n: the shortest step is the radius over this
)

// largeRadius is delta_max: 50 times the default first radius in rkhs, 10 times in
// alpha, where a long step changes every coefficient.
func (o *options) largeRadius() float64 {
	if o.Geometry == "alpha" {
		return 1
	}
	return 50
}

// asPaper reports whether candidates take the paper's acceptance test. With the
// test goes the rest of the printed algorithm: T stays out of the sample, the model
// between steps is the incumbent, and the line search is Algorithm 2, whose radius
// the test adapts. Otherwise the line search is exact.
func (o *options) asPaper() bool { return o.Accept == "ratio" || o.Accept == "printed" }

// check validates what ranges cannot express and resolves "auto".
func check(o *options) error {
	if math.IsNaN(o.Delta0) {
		o.Delta0 = 1
		if o.Geometry == "alpha" {
			o.Delta0 = 0.1
		}
	}
	if o.Delta0 < smallRadius || o.Delta0 > o.largeRadius() {
		return fmt.Errorf("option delta_0 = %g: outside [%g, %g]", o.Delta0, smallRadius, o.largeRadius())
	}
	if o.Initial > o.MaxSample {
		return fmt.Errorf("option initial = %d: above max_sample = %d", o.Initial, o.MaxSample)
	}
	if o.Geometry == "alpha" && (o.Margin > 0 || o.Full != "stop" && !o.asPaper()) {
		return fmt.Errorf("option geometry = alpha: all coefficients are non-zero there, so margin must be 0 and full be stop")
	}
	if o.Accept == "guard" && (o.Margin == 0 || o.Geometry != "rkhs") {
		return fmt.Errorf("option accept = guard: needs a margin above 0 and geometry = rkhs")
	}
	return nil
}

// presets: "paper" is Algorithm 1 to the letter wherever the letter can work. The
// sign of d_0, the roles of the line search's constants and the kernel between T
// and S follow the errata E-3, E-4 and E-5.
var presets = map[string]map[string]string{
	"paper": {
		"lambda": "1", "bias": "0", "geometry": "alpha", "accept": "printed", "restart": "never",
		"initial": "64", "growth": "fixed", "iterations": "1", "final": "0",
		"max_sample": "2000", "full": "stop", "t_max": "0", "margin": "0", "gain": "0", "budget": "0",
	},
	"default": {},
	"fast":    {"max_sample": "16384", "gap": "1"},
}

// gone are options that earlier versions had, and what replaces them.
var gone = map[string]string{
	"rounds": "a step goes on until the duality gap is within its bound; see gap and blocks", "final_rounds": "see gap",
	"final_blocks": "see gap", "tol": "see gap", "final_tol": "see gap", "eps": "see gap", "newton": "set gap low",
	"polish":  "the ascent follows the iterations unless margin is 0",
	"warm":    "iterations precede the ascent while the sample is small",
	"publish": "accept decides it: with ratio and printed the incumbent is the model between steps, otherwise the newest iterate",
	"recycle": "accept decides it: with ratio and printed T stays out of the sample, otherwise it is taken in",
	"grow":    "growth = fixed adds 16 points a step", "factor": "growth = geometric doubles the sample",
	"p_fail":    "growth = theorem holds with probability 0.95; kappa sets how fast the sample grows",
	"delta_min": "it is 1e-4; delta_0 sets the first radius", "delta_max": "it is 50, and 1 with geometry = alpha; delta_0 sets the first radius",
	"search": "accept decides it: with ratio and printed it is that of Algorithm 2, otherwise exact",
	"eta1":   "the constant of the test is 0.1", "eta2": "the constant of the test is 1e-3", "gam": "the radius changes by factors of 2",
	"c1": "the constant of Algorithm 2 is 0.25", "c2": "the constant of Algorithm 2 is 0.45", "n": "the constant of Algorithm 2 is 4",
}
