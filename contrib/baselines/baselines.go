// Package baselines registers the learners that serve for comparisons only: frs3vm,
// and linear models by variance reduction (svrg, saga, katyusha). Import it
// for its side effect, to train them or to read their models. They are special cases
// of learners of the core, whose packages implement them.
//
// The API is stable.
package baselines

import (
	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/registry"
	"github.com/streamsvm/streamsvm/algos/svrg"
	"github.com/streamsvm/streamsvm/algos/tsgs3vm"
)

func init() {
	for _, s := range specs {
		if err := registry.Register(s); err != nil {
			panic(err) // another package has registered a learner of this name
		}
	}
}

// specs are in the order in which help and tables show them. package registry has
// their names too, for the message of programs without them.
var specs = []algos.Spec{
	tsgs3vm.FRS3VM,
	svrg.SVRG,
	svrg.SAGA,
	svrg.Katyusha,
}
