// Package registry lists the learners: one line each.
package registry

import (
	"fmt"
	"strings"

	"github.com/streamsvm/streamsvm/algos"
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

// Lookup returns the learner registered under name.
func Lookup(name string) (algos.Spec, error) {
	var names []string
	for _, s := range All {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return algos.Spec{}, fmt.Errorf("no learner %q; there are %s%s", name, strings.Join(names, ", "), spell.DidYouMean(name, names))
}
