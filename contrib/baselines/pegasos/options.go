package pegasos

import (
	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/kernel"
)

// options are the learner's options; the tags say what they mean.
type options struct {
	C      float64 `opt:"c" default:"1" range:"(0,inf)" tune:"log 0.1 1000" doc:"weight of the losses as in LIBSVM: lambda = 1/(C n) for n examples so far; used while lambda is auto"`
	Lambda float64 `opt:"lambda" default:"auto" range:"(0,inf)" auto:"1/(C n)" paper:"lambda" doc:"ridge weight"`
	kernel.Options
	Budget int `opt:"budget" default:"50000" range:"[1,1e8]" doc:"most support vectors"`

	_       struct{} `group:"expert"`
	Bias    float64  `opt:"bias" default:"1" range:"[0,inf)" doc:"constant added to the kernel, which gives the model a regularised bias; 0 for none"`
	Batch   int      `opt:"batch" default:"1" range:"[1,1e5]" paper:"k" doc:"examples a step"`
	Passes  int      `opt:"passes" default:"1" range:"[1,1000]" doc:"steps for each batch of new examples: the first on the new ones, the others on draws from the buffer"`
	Buffer  int      `opt:"buffer" default:"10000" range:"[1,1e8]" doc:"examples held, as a uniform sample of all, for the passes after the first"`
	Average string   `opt:"average" default:"linear" enum:"none,uniform,linear" doc:"the model is the last iterate, or the average of all, evenly or in proportion to the step number"`
	Removal string   `opt:"removal" default:"fade" enum:"fade,smallest,oldest" doc:"of too many support vectors the smallest goes, while all that was learned fades; or the smallest; or the oldest"`

	_       struct{} `group:"paper"`
	Project bool     `opt:"project" default:"false" paper:"optional" doc:"project onto the ball of radius 1/sqrt(lambda) after each step"`
	Radius  float64  `opt:"radius" default:"auto" range:"(0,inf)" auto:"none" doc:"minimise the mean hinge over the ball of this radius instead, without a ridge"`
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
