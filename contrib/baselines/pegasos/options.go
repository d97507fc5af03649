package pegasos

import (
	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/kernel"
)

// options are the learner's options; the tags say what they mean.
type options struct {
	C float64 `opt:"c" default:"1" range:"(0,inf)" tune:"log 0.1 1000" doc:"weight of the losses as in LIBSVM: lambda = 1/(C n) for n examples so far; used while lambda is auto"`
	kernel.Options
	Budget int `opt:"budget" default:"50000" range:"[1,1e8]" doc:"most support vectors"`

	Lambda  float64 `opt:"lambda" fixed:"auto" range:"(0,inf)" auto:"1/(C n)"` // ridge weight
	Bias    float64 `opt:"bias" fixed:"1" range:"[0,inf)"`                     // constant added to the kernel, which gives the model a regularised bias; 0 for none
	Batch   int     `opt:"batch" fixed:"1" range:"[1,1e5]"`                    // examples a step
	Average string  `opt:"average" fixed:"linear" enum:"none,linear"`          // the model is the last iterate, or the average of all in proportion to the step number
	Removal string  `opt:"removal" fixed:"fade" enum:"fade,smallest"`          // of too many support vectors the smallest goes, while all that was learned fades; or just the smallest

	_ struct{} `opt:"passes" fixed:"1"`
	_ struct{} `opt:"buffer" fixed:"10000"`
	_ struct{} `opt:"project" fixed:"false"`
	_ struct{} `opt:"radius" fixed:"auto"`
}

// Spec registers the learner.
var Spec = algos.Define(algos.SpecInfo{
	Name:    "pegasos",
	Summary: "kernel Pegasos: stochastic subgradient steps on the SVM objective, one example at a time",
	When:    "a baseline, and where a model must follow each example at once; scs reaches a better optimum from the same stream",
	Paper:   "Shalev-Shwartz, Singer, Srebro, Cotter, Pegasos: Primal Estimated sub-GrAdient SOlver for SVM, Math. Programming 127 (2011), sec. 4",
	Kind:    algos.Kernel,
	Presets: map[string]map[string]string{
		"paper": {"lambda": "1", "bias": "0", "average": "none", "removal": "smallest"},
	},
}, check, newLearner, expansion.Decode)

func check(o *options) error { return o.Check() }
