// Package registry maps names to learners: the built-in ones, and the ones that a
// program registers.
//
// The API is stable.
package registry

import (
	"fmt"
	"strings"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/adaptive"
	"github.com/streamsvm/streamsvm/algos/l1smooth"
	"github.com/streamsvm/streamsvm/algos/online"
	"github.com/streamsvm/streamsvm/algos/ridge"
	"github.com/streamsvm/streamsvm/algos/sbp"
	"github.com/streamsvm/streamsvm/algos/scs"
	"github.com/streamsvm/streamsvm/algos/svrg"
	"github.com/streamsvm/streamsvm/algos/tsgs3vm"
	"github.com/streamsvm/streamsvm/internal/spell"
)

// All lists every learner, in the order used in help texts and tables.
var All = []algos.Spec{
	adaptive.Spec,
	scs.Spec,
	sbp.Spec,
	tsgs3vm.Spec,
	tsgs3vm.DSG,
	online.Spec,
	l1smooth.Spec,
	svrg.SD,
	svrg.SAGASD,
	ridge.Spec,
}

// removed maps learners of earlier versions to their replacements.
var removed = map[string]string{
	"frs3vm":     "tsgs3vm finds a better model with the same features",
	"katyusha":   likeSD,
	"pegasos":    "scs finds a better optimum from the same stream, sbp follows the last examples",
	"perceptron": "sbp keeps a small kernel model of the last examples",
	"prox-svrg":  likeSD,
	"saga":       "saga-sd is this method with momentum and sufficient decrease",
	"sdca":       "sbp keeps a kernel model of the last examples, scs comes with a duality gap",
	"smo":        "sbp keeps a kernel model of the last examples, scs comes with a duality gap",
	"svrg":       likeSD,
	"wolfe":      "scs is this method on samples that grow with the stream",
}

const likeSD = "svrg-sd solves the same problems in fewer passes"

// Register adds a learner of your own to All, so that trainers find it by name and
// predictors can decode its models. Call it before using either, for example at the
// start of main.
func Register(s algos.Spec) error {
	if s.Name == "" || s.New == nil || s.DecodeModel == nil || s.Check == nil || len(s.Tasks) == 0 {
		return fmt.Errorf("learner %q lacks a part: make it with algos.Define", s.Name)
	}
	if _, err := Lookup(s.Name); err == nil {
		return fmt.Errorf("there is a learner %q already", s.Name)
	}
	All = append(All, s)
	return nil
}

// Lookup returns the learner registered under name.
func Lookup(name string) (algos.Spec, error) {
	for _, s := range All {
		if s.Name == name {
			return s, nil
		}
	}
	if name == "lssvm" {
		return algos.Spec{}, fmt.Errorf("this program does not have the learner %q: it was built with -tags core, or, if it is one of your own, does not import github.com/streamsvm/streamsvm/contrib/scale/lssvm", name)
	}
	if advice, ok := removed[name]; ok {
		return algos.Spec{}, fmt.Errorf("the learner %q has been removed: %s", name, advice)
	}
	names := Names()
	return algos.Spec{}, fmt.Errorf("no learner %q; there are %s%s", name, strings.Join(names, ", "), spell.DidYouMean(name, names))
}

// ModelsOf returns the learner that decodes the models of the learner called name, which
// may exist only in earlier versions.
func ModelsOf(name string) (algos.Spec, error) {
	switch name {
	case "katyusha", "saga", "svrg":
		return svrg.SD, nil // linear models all
	case "frs3vm":
		return tsgs3vm.Spec, nil
	}
	return Lookup(name)
}

// Names returns the names of all learners, in the order of All.
func Names() []string {
	var names []string
	for _, s := range All {
		names = append(names, s.Name)
	}
	return names
}
