package adaptive

import "github.com/streamsvm/streamsvm/algos"

// Short is Spec with smaller sizes, for fuzzing and simulation: a stream of a few
// hundred examples starts every kernel learner, has cuts, and ends the longest
// challenger.
var Short = algos.Define(Spec.SpecInfo, nil, func(env algos.Env, o options) (algos.Learner, error) {
	return newSized(env, o, &short)
}, decodeAny)

var short = sizes{
	first: 16, large: 96, whole: 160, settled: 224, held: 96, windows: [...]int{16, 32, 48, 80},
	features: [...]int{40, 160},
	scs:      map[string]string{"initial": "32", "max_sample": "128"}, dsg: map[string]string{"features": "64", "labels": "128", "tuning": "64"},
}
