package scs

import (
	"fmt"
	"math"

	"github.com/streamsvm/streamsvm/algos/internal/hinge"
)

// Options are the learner's options; the tags say what they mean.
type Options struct {
	C      float64 `opt:"c" default:"1" range:"(0,inf)" tune:"log 0.1 1000" doc:"weight of the losses as in LIBSVM: lambda = 1/(C |S|) as the sample S grows; used while lambda is auto"`
	Lambda float64 `opt:"lambda" default:"auto" range:"(0,inf)" auto:"1/(C |S|)" paper:"eq 1, where it is 1" doc:"ridge weight"`

	hinge.KernelOptions
	Bias float64 `opt:"bias" default:"1" range:"[0,inf)" paper:"absent" doc:"constant added to the kernel, which gives the model a regularised bias; 0 for none"`

	Geometry string `opt:"geometry" default:"rkhs" enum:"rkhs,alpha" paper:"alpha; E-12" doc:"metric of directions and steps: the function space or the Euclidean coefficients"`
	Search   string `opt:"search" default:"exact" enum:"exact,wolfe" paper:"wolfe; Algorithm 2" doc:"line search"`
	Accept   string `opt:"accept" default:"guard" enum:"guard,ratio,printed,always" paper:"printed; E-2" doc:"when a candidate is accepted: once it has its duality gap and unless fresh draws show that it is worse than the model in use; or as in the paper on the validation sample T, by the agreement ratio or by the inequality as printed; or always"`
	Restart  string `opt:"restart" default:"stage" enum:"never,reject,stall,stage" paper:"never; E-10" doc:"when the direction is reset to the negative subgradient: never, after a rejected or null step, only after a null step, or after that and whenever the sample grows"`
	Publish  string `opt:"publish" default:"candidate" enum:"candidate,incumbent" paper:"incumbent" doc:"without the guard, which iterate is the model between steps: the newest, or the last one tested"`

	Initial    int     `opt:"initial" default:"256" range:"[2,1000000]" paper:"#S_0, unreported" doc:"size of the first sample"`
	Growth     string  `opt:"growth" default:"geometric" enum:"fixed,geometric,theorem" paper:"theorem 3.3" doc:"how the sample grows"`
	Grow       int     `opt:"grow" default:"16" range:"[0,1000000]" paper:"#s_k, unreported" doc:"points added a step under fixed growth"`
	Factor     float64 `opt:"factor" default:"2" range:"(1,16]" doc:"ratio of successive sizes under geometric growth"`
	Kappa      float64 `opt:"kappa" default:"10" range:"(0,inf)" paper:"kappa" doc:"approximation constant of theorem growth"`
	PFail      float64 `opt:"p_fail" default:"0.05" range:"(0,1)" paper:"epsilon of theorem 3.3" doc:"failure probability of theorem growth"`
	MaxSample  int     `opt:"max_sample" default:"100000" range:"[2,100000000]" paper:"7 (i)" doc:"largest sample S"`
	Full       string  `opt:"full" default:"replace" enum:"stop,replace,window" paper:"7 (i), (ii); drift" doc:"what happens once S is at its largest: it stays; or recycled draws replace its oldest points, those without a coefficient first while the others are few; or always the oldest, so that the model follows a drifting stream"`
	Budget     int     `opt:"budget" default:"20000" range:"[0,100000000]" paper:"7 (iii)" doc:"most support vectors of a model in use: the sample grows no further, or shrinks, where it would have more; 0 for no limit"`
	Shuffle    int     `opt:"shuffle" default:"0" range:"[0,100000000]" paper:"draws are i.i.d." doc:"size of the buffer that breaks up the order of the stream before draws are taken; 0 for none"`
	TMax       int     `opt:"t_max" default:"8192" range:"[0,100000000]" paper:"#T_k = #S_k" doc:"largest validation sample T, which bounds how long the model stands still; 0 for no limit but the size of S"`
	Recycle    bool    `opt:"recycle" default:"true" paper:"false" doc:"take T into the sample after the test"`
	Iterations int     `opt:"iterations" default:"3" range:"[0,100000]" paper:"1" doc:"conjugate subgradient iterations a step"`
	Final      int     `opt:"final" default:"5" range:"[0,1000000]" paper:"0" doc:"iterations at the end of a bounded stream; with 0, examples pending then stay pending"`

	Eps      float64 `opt:"eps" default:"1e-3" range:"(0,inf)" paper:"eps" doc:"converged when the direction is no longer than this and the radius is at its floor"`
	Delta0   float64 `opt:"delta_0" default:"auto" range:"(0,inf)" auto:"1 in rkhs, 0.1 in alpha" paper:"delta_0" doc:"first radius of the Wolfe search"`
	DeltaMin float64 `opt:"delta_min" default:"1e-4" range:"(0,inf)" paper:"delta_min" doc:"smallest radius"`
	DeltaMax float64 `opt:"delta_max" default:"auto" range:"(0,inf)" auto:"50 in rkhs, 1 in alpha" paper:"delta_max" doc:"largest radius"`
	Eta1     float64 `opt:"eta1" default:"0.1" range:"(0,1)" paper:"eta1" doc:"least ratio of the decrease on T to that on S"`
	Eta2     float64 `opt:"eta2" default:"1e-3" range:"[0,inf)" paper:"eta2" doc:"a step is a success only where the direction is longer than this times the radius"`
	Gam      float64 `opt:"gam" default:"2" range:"(1,inf)" paper:"gamma" doc:"factor by which the radius changes"`
	C1       float64 `opt:"c1" default:"0.25" range:"(0,0.5)" paper:"m2; E-4" doc:"sufficient decrease constant of the Wolfe search"`
	C2       float64 `opt:"c2" default:"0.45" range:"(0,1)" paper:"m1; E-4" doc:"curvature constant of the Wolfe search"`
	N        float64 `opt:"n" default:"4" range:"(1,inf)" paper:"n" doc:"the shortest step is the radius over this"`

	Gap    float64 `opt:"gap" default:"0.5" range:"(0,100]" paper:"absent" doc:"largest duality gap of a model in use, in units of the standard error of the objective as an estimate of that of the whole stream, or of a fiftieth of the objective where that is more; a fifth of it at the end of a bounded stream"`
	Blocks int     `opt:"blocks" default:"2000" range:"[1,1000000]" doc:"most blocks of the dual ascent in a step; where they do not suffice, the sample waits"`
	Block  int     `opt:"block" default:"512" range:"[4,4096]" doc:"points in a block"`
	Margin float64 `opt:"margin" default:"0.2" range:"[0,inf)" paper:"absent" doc:"work on the points whose margin is below 1 + this only, and check the others afterwards; 0: iterate on the whole sample, without ascent"`
	Reduce float64 `opt:"reduce" default:"0.05" range:"[0,inf)" paper:"absent" doc:"most by which a reduced set, which is put into use where a small one is found, may change the decision at a support vector; 0: all support vectors"`
	Gain   float64 `opt:"gain" default:"0.002" range:"[0,1]" doc:"the sample grows while another doubling may gain so much accuracy, or a fiftieth of the error where that is less; 0: always"`

	CacheMB int `opt:"cache" default:"256" range:"[0,1000000]" doc:"bound on the cache of kernel rows, MiB; changes no result"`
}

// check checks what a range cannot say and resolves what "auto" means.
func check(o *Options) error {
	if o.C1 >= o.C2 {
		return fmt.Errorf("option c1 = %g: not below c2 = %g", o.C1, o.C2)
	}
	o.Delta0 = auto(o.Delta0, o.Geometry, 1, 0.1)
	o.DeltaMax = auto(o.DeltaMax, o.Geometry, 50, 1)
	if o.DeltaMin > o.Delta0 || o.Delta0 > o.DeltaMax {
		return fmt.Errorf("option delta_0 = %g: outside [delta_min, delta_max] = [%g, %g]", o.Delta0, o.DeltaMin, o.DeltaMax)
	}
	if o.Initial > o.MaxSample {
		return fmt.Errorf("option initial = %d: above max_sample = %d", o.Initial, o.MaxSample)
	}
	if o.Geometry == "alpha" && (o.Margin > 0 || o.Full != "stop" && o.Recycle) {
		return fmt.Errorf("option geometry = alpha: all coefficients are non-zero there, so margin must be 0 and full be stop")
	}
	if o.Accept == "guard" && (o.Margin == 0 || o.Geometry != "rkhs" || !o.Recycle) {
		return fmt.Errorf("option accept = guard: needs a margin above 0, geometry = rkhs and recycle = true")
	}
	return nil
}

func auto(v float64, geometry string, rkhs, alpha float64) float64 {
	switch {
	case !math.IsNaN(v):
		return v
	case geometry == "alpha":
		return alpha
	}
	return rkhs
}

// presets: "paper" is Algorithm 1 to the letter where the letter can work. The
// sign of d_0, the roles of the line search's constants and the kernel between
// T and S are as the errata E-3, E-4 and E-5 say.
var presets = map[string]map[string]string{
	"paper": {
		"lambda": "1", "bias": "0", "geometry": "alpha", "search": "wolfe", "accept": "printed", "restart": "never",
		"publish": "incumbent", "initial": "64", "growth": "fixed", "recycle": "false", "iterations": "1", "final": "0",
		"max_sample": "2000", "full": "stop", "t_max": "0", "margin": "0", "gain": "0", "budget": "0",
	},
	"default": {},
	"fast":    {"max_sample": "16384", "gap": "1"},
}

// gone are options that earlier versions had, and what stands for them.
var gone = map[string]string{
	"rounds": "a step goes on until the duality gap is within its bound; see gap and blocks", "final_rounds": "see gap",
	"final_blocks": "see gap", "tol": "see gap", "final_tol": "see gap", "newton": "set gap low",
	"polish": "the ascent follows the iterations unless margin is 0",
	"warm":   "iterations precede the ascent while the sample is small",
}
