// Package registry lists the learners: one line each, and those of your own.
//
// The API is stable.
package registry

import (
	"fmt"
	"strings"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/adaptive"
	"github.com/streamsvm/streamsvm/algos/baseline/online"
	"github.com/streamsvm/streamsvm/algos/baseline/pegasos"
	"github.com/streamsvm/streamsvm/algos/baseline/perceptron"
	"github.com/streamsvm/streamsvm/algos/baseline/ridge"
	"github.com/streamsvm/streamsvm/algos/baseline/sdca"
	"github.com/streamsvm/streamsvm/algos/baseline/smo"
	"github.com/streamsvm/streamsvm/algos/baseline/wolfe"
	"github.com/streamsvm/streamsvm/algos/l1smooth"
	"github.com/streamsvm/streamsvm/algos/sbp"
	"github.com/streamsvm/streamsvm/algos/scs"
	"github.com/streamsvm/streamsvm/algos/svrg"
	"github.com/streamsvm/streamsvm/algos/tsgs3vm"
	"github.com/streamsvm/streamsvm/internal/spell"
)

// All holds every learner, in the order in which help and tables show them.
var All = []algos.Spec{
	adaptive.Spec,
	scs.Spec,
	wolfe.Spec,
	sbp.Spec,
	perceptron.Spec,
	sdca.Spec,
	smo.Spec,
	pegasos.Spec,
	tsgs3vm.Spec,
	tsgs3vm.DSG,
	tsgs3vm.FRS3VM,
	tsgs3vm.LSSVM,
	online.Spec,
	l1smooth.Spec,
	svrg.SD,
	svrg.SAGASD,
	svrg.SVRG,
	svrg.ProxSVRG,
	svrg.SAGA,
	svrg.Katyusha,
	ridge.Spec,
}

// Register adds a learner of your own to All, so that trainers know it by its
// name, and predictors can read its models. Call it before either is used, such
// as first thing in main.
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
	names := Names()
	return algos.Spec{}, fmt.Errorf("no learner %q; there are %s%s", name, strings.Join(names, ", "), spell.DidYouMean(name, names))
}

// Names returns the names of all learners, in the order of All.
func Names() []string {
	var names []string
	for _, s := range All {
		names = append(names, s.Name)
	}
	return names
}
