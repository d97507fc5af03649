// Package scale adds the commands for streams that one trainer cannot keep up with.
// sum adds up what a least-squares model needs to know of some records, and solve
// makes the model from the sums of all of them. sift forwards only the records that
// a trainer still learns from. Import it for its side effect.
package scale

import (
	_ "github.com/streamsvm/streamsvm/contrib/scale/lssvm" // registers the learner of sum
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/contrib"
)

func init() {
	contrib.Commands = func(w contrib.Wiring) []*cli.Command {
		return []*cli.Command{siftCommand(w), sumCommand(w), solveCommand()}
	}
}
