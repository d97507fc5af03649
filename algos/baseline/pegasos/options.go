package pegasos

import (
	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/internal/expansion"
	"github.com/streamsvm/streamsvm/internal/kernel"
)

// Options are the learner's options; the tags say what they mean.
type Options struct {
	C      float64 `opt:"c" default:"1" range:"(0,inf)" tune:"log 0.1 1000" doc:"weight of the losses as in LIBSVM: lambda = 1/(C n) as the number n of examples grows; used while lambda is auto"`
	Lambda float64 `opt:"lambda" default:"auto" range:"(0,inf)" auto:"1/(C n)" paper:"lambda" doc:"ridge weight"`

	kernel.Options
	Bias float64 `opt:"bias" default:"1" range:"[0,inf)" paper:"absent" doc:"constant added to the kernel, which gives the model a regularised bias; 0 for none"`

	Batch   int     `opt:"batch" default:"1" range:"[1,100000]" paper:"k" doc:"examples a step"`
	Passes  int     `opt:"passes" default:"1" range:"[1,1000]" doc:"steps for each batch of new examples: the first on the new ones, the others on draws from the buffer"`
	Buffer  int     `opt:"buffer" default:"10000" range:"[1,100000000]" doc:"examples kept, as a uniform sample of all, for the passes after the first"`
	Project bool    `opt:"project" default:"false" paper:"optional" doc:"project onto the ball of radius 1/sqrt(lambda) after each step"`
	Radius  float64 `opt:"radius" default:"auto" range:"(0,inf)" auto:"none" paper:"absent" doc:"if given, minimise the mean hinge over the ball of this radius instead, without a ridge: steps radius/sqrt(t max K(x,x)), each projected onto the ball"`
	Average string  `opt:"average" default:"linear" enum:"none,uniform,linear" paper:"none" doc:"the model is the last iterate, or the average of all, evenly or in proportion to the step number"`

	Budget  int    `opt:"budget" default:"50000" range:"[1,100000000]" paper:"absent" doc:"most support vectors"`
	Removal string `opt:"removal" default:"fade" enum:"fade,smallest,oldest" paper:"absent" doc:"which support vector goes when there are too many. smallest: the one with the smallest coefficient times the root of K(x,x), the oldest of equals; oldest: the oldest, with all that it is in the average; fade: the smallest, and from an eighth of the budget on all that was learned loses weight with each new one, in the last iterate and in the average, so that little of it is left by then"`
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

func check(o *Options) error { return o.Check() }
