package scale

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/internal/app/cli"
)

// mergeFiles adds up the sketches of each plan, in the order in which plans first appear.
func mergeFiles(paths []string) (list []*sketch, err error) {
	for _, path := range paths {
		s, err := readSketch(path)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(list, func(o *sketch) bool { return bytes.Equal(o.plan, s.plan) })
		if i < 0 {
			list = append(list, s)
		} else if err := list[i].merge(s); err != nil {
			return nil, cli.Fail(cli.Data, fmt.Errorf("%s: %w", path, err))
		}
	}
	return list, nil
}

// writeModel writes the model of sketches.
func writeModel(c *cli.Call, list []*sketch) error {
	if list[0].sums.Len() == 0 {
		return cli.Failf(cli.Data, "no examples have been summed")
	}
	model, said, err := solve(list)
	if err != nil {
		return cli.Fail(cli.Data, err)
	}
	if !c.Quiet {
		fmt.Fprintf(c.Err, "%s\nmodel hash %016x, %s\n", list[0], xxhash.Sum64(model), said)
	}
	_, err = c.Out.Write(model)
	return err
}
