package scs

import (
	"fmt"

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

	TMax    int     `opt:"t_max" fixed:"8192" range:"[0,1e8]"`        // size limit of the validation sample T, in examples, which bounds the time between models; 0: as large as S
	Bias    float64 `opt:"bias" fixed:"1" range:"[0,inf)"`            // constant added to the kernel, which gives the model a regularised bias; 0 for none
	Initial int     `opt:"initial" fixed:"256" range:"[2,1e6]"`       // size of the first sample, in examples
	Gain    float64 `opt:"gain" fixed:"0.002" range:"[0,1]"`          // the sample grows while a doubling may gain at least this accuracy, or a fiftieth of the error if that is less; 0: always
	Gap     float64 `opt:"gap" fixed:"0.5" range:"(0,100]"`           // largest duality gap of a model in use, in standard errors of the objective; a fifth of this at the end of a bounded stream
	Blocks  int     `opt:"blocks" fixed:"2000" range:"[1,1e6]"`       // most blocks of the dual ascent in a step; if they do not suffice, the sample waits
	Block   int     `opt:"block" fixed:"512" range:"[4,4096]"`        // points in a block
	Margin  float64 `opt:"margin" fixed:"0.2" range:"(0,inf)"`        // the ascent uses points with a margin below 1 + this, then checks the others
	Reduce  float64 `opt:"reduce" fixed:"0.05" range:"[0,inf)"`       // largest change of a decision at a support vector by a reduced set; 0: use all support vectors
	CacheMB int     `opt:"cache" fixed:"8" range:"[0,1e6]"`           // size limit of the cache of kernel rows, MiB; does not change results
	Accept  string  `opt:"accept" fixed:"guard" enum:"guard,printed"` // when a candidate becomes the model: if its gap is small and it is not worse on draws; or by the paper's test, with the rest of the printed algorithm

	// Options of earlier versions, which stored states may contain.
	_ struct{} `opt:"iterations" fixed:"3"`
	_ struct{} `opt:"final" fixed:"5"`
	_ struct{} `opt:"geometry" fixed:"rkhs"`
	_ struct{} `opt:"restart" fixed:"stage"`
	_ struct{} `opt:"growth" fixed:"geometric"`
	_ struct{} `opt:"kappa" fixed:"10"`
	_ struct{} `opt:"delta_0" fixed:"auto"`
	_ struct{} `opt:"shuffle" fixed:"0"`
}

// Constants of Algorithm 1 and its line search. The paper gives no values; these
// are the usual ones.
const (
	fixedGrowth = 16   // #s_k; samples grow slowly, as in the paper's experiments
	firstRadius = 0.1  // delta_0
	smallRadius = 1e-4 // delta_min, far below every radius at which a step is accepted
	largeRadius = 1    // delta_max: a long step changes every coefficient
	eta1        = 0.1  // least ratio of the decreases on T and on S, as in trust-region methods
	eta2        = 1e-3 // a step succeeds only if the direction is longer than this times the radius
	radiusRatio = 2    // gamma: factor by which the radius changes
	decrease    = 0.25 // m2 of Algorithm 2: sufficient decrease; below curvature (E-4)
	curvature   = 0.45 // m1 of Algorithm 2
	shortest    = 4    // n: the shortest step is the radius divided by this
)

// With the guard: the numbers of conjugate subgradient iterations before the ascent,
// in a step and at the end of a bounded stream.
const iterations, lastIterations = 3, 5

// check returns an error for conditions that ranges cannot express.
func check(o *options) error {
	if o.Initial > o.MaxSample {
		return fmt.Errorf("option initial = %d: above max_sample = %d", o.Initial, o.MaxSample)
	}
	if !o.guarded() && o.Budget > 0 {
		return fmt.Errorf("option budget = %d: the printed algorithm has none", o.Budget)
	}
	return nil
}

// presets: "paper" is Algorithm 1 to the letter wherever the letter can work. The
// sign of d_0, the roles of the line search's constants and the kernel between T
// and S follow the errata E-3, E-4 and E-5.
var presets = map[string]map[string]string{
	"paper": {
		"lambda": "1", "bias": "0", "accept": "printed", "initial": "64", "max_sample": "2000", "full": "stop", "t_max": "0", "budget": "0",
	},
	"default": {},
	"fast":    {"max_sample": "16384", "gap": "1"},
	// An SVM on the latest examples, in small steps.
	"drift": {"max_sample": "4096", "full": "window", "t_max": "256"},
}

// gone lists the options of earlier versions, each with its replacement.
var gone = map[string]string{
	"rounds": byGap, "final_rounds": byGap, "final_blocks": byGap, "tol": byGap, "final_tol": byGap, "eps": byGap, "newton": byGap,
	"polish": byGap, "warm": byGap,
	"publish": asPrinted, "recycle": asPrinted, "search": asPrinted, "grow": asPrinted, "factor": asPrinted,
	"p_fail": asPrinted, "delta_min": asPrinted, "delta_max": asPrinted, "eta1": asPrinted, "eta2": asPrinted, "gam": asPrinted,
	"c1": asPrinted, "c2": asPrinted, "n": asPrinted,
}

const (
	byGap     = "a step goes on until the duality gap is within its bound"
	asPrinted = "it is a constant; the preset paper follows the printed algorithm"
)
