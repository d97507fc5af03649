package l1smooth

import (
	"errors"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/model"
)

// options are the learner's options; their tags document them.
type options struct {
	C      float64 `opt:"c" default:"1" range:"(0,inf)" tune:"log 0.001 100" doc:"weight of the losses as in LIBLINEAR: lambda = 1/(C n) for a buffer of n examples; used while lambda is auto"`
	Lambda float64 `opt:"lambda" default:"auto" range:"[0,inf)" auto:"1/(C n)" paper:"lambda, eq 2" doc:"ridge weight"`
	L1     float64 `opt:"l1" default:"0.1" range:"[0,inf)" doc:"weight of the absolute values relative to the ridge: mu = l1 lambda; used while mu is auto"`
	Buffer int     `opt:"buffer" default:"100000" range:"[2,1e8]" paper:"N" doc:"most examples held"`
	Keep   string  `opt:"keep" default:"window" enum:"window,reservoir,balanced,growing" doc:"the examples held: the last ones, a uniform sample of all, one with equal shares of the classes, or the first ones"`
	Every  int     `opt:"every" default:"auto" range:"[1,1e8]" auto:"a quarter of those held, at least 16" doc:"examples between two solutions"`

	Dim int `opt:"dims" alias:"dim" default:"1048576" range:"[1,67108864]" doc:"most features; examples with others are refused: hash them"`

	Mu       float64 `opt:"mu" fixed:"auto" range:"[0,inf)" auto:"l1 lambda"`     // weight of the absolute values of the weights, which makes them sparse; 0 for an l2 SVM
	Bias     float64 `opt:"bias" fixed:"1" range:"[0,inf)"`                       // value of a constant feature that gives the model a regularised bias; 0 for none
	Direct   int     `opt:"direct" fixed:"1000" range:"[0,20000]"`                // largest active set for which the Newton system is factored; larger ones use conjugate gradients
	Steps    int     `opt:"iterations" alias:"steps" fixed:"500" range:"[1,1e6]"` // most iterations of one solution
	Alpha0   float64 `opt:"alpha0" fixed:"1" range:"(0,1e6]"`                     // smoothing at the first level
	AlphaMin float64 `opt:"alpha_min" fixed:"1e-3" range:"[1e-14,1]"`             // smoothing at the last level
	Beta     float64 `opt:"beta" fixed:"0.3" range:"(0,0.95]"`                    // factor of the smoothing from level to level
	Eta      float64 `opt:"eta" fixed:"0.1" range:"(0,1)"`                        // a level is solved once the slope along the Newton direction is below eta alpha
	KKT      string  `opt:"kkt" fixed:"final" enum:"faithful,final"`              // activate weights once per level as printed, or at the last level until none violates optimality
	Start    string  `opt:"start" fixed:"dual" enum:"newton,dual"`                // begin with Newton steps, or with dual coordinate ascent as long as it is faster
	Search   string  `opt:"search" fixed:"exact" enum:"halve,exact"`              // if the step of the quadratic model is too long: halve it, or use the minimum along the direction
}

// Constants of Algorithm 3's line search, for which the paper gives no values.
const (
	armijo   = 1e-4  // c1: sufficient decrease, as a share of the slope; the usual value
	leastTry = 1e-10 // s_min: the search fails below this, where rounding hides a decrease
)

// Spec registers the learner.
var Spec = algos.Define(algos.SpecInfo{
	Name:    "l1smooth",
	Summary: "linear SVM with sparse weights by active-set Newton steps on a smoothed hinge",
	When:    "linear models of tall data, dense or sparse: an optimum with few weights and a duality gap, in tens of passes over a buffer",
	Paper:   "Emirahmetoglu, Hajewski, Oliveira, Stewart: A Smoothing Algorithm for l1 Support Vector Machines, arXiv 2401.09431, Algorithms 1 to 4, corrected",
	Kind:    algos.Linear,
	Gone: map[string]string{
		"armijo": "the line search accepts a decrease of 1e-4 of the slope", "s_min": "the line search fails below a step of 1e-10",
	},
	Presets: map[string]map[string]string{
		"paper": {"alpha_min": "1e-6", "beta": "0.1", "kkt": "faithful", "start": "newton", "search": "halve", "direct": "20000"},
	},
}, check, newLearner, model.DecodeLinear)

func check(o *options) error {
	if o.AlphaMin > o.Alpha0 {
		return errors.New("option alpha_min is greater than alpha0")
	}
	return nil
}

// ladder returns the levels: alpha0 beta^k for k = 0 … K, where the last one is the
// first that does not exceed alphaMin, up to rounding (E12).
func ladder(alpha0, alphaMin, beta float64) []float64 {
	list := []float64{alpha0}
	for a := alpha0; a > alphaMin*(1+1e-9); {
		a *= beta
		list = append(list, a)
	}
	return list
}
