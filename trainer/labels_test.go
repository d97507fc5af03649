package trainer

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
)

// TestKeepLabels: the labels that are kept are the first of all labels in an
// order that the seed gives, counted among the records that are examples.
func TestKeepLabels(t *testing.T) {
	const records, seed = 1000, 7
	refused := func(i int64) bool { return i%17 == 3 }
	labelled := func(i int64) bool { return i%3 != 1 }
	var numbers []uint64 // of the examples with a label
	var examples uint64
	for i := range int64(records) {
		if refused(i) {
			continue
		}
		if labelled(i) {
			numbers = append(numbers, examples)
		}
		examples++
	}
	order := slices.Clone(numbers)
	rng.New(seed, "labelled").Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	admit := func(r *stream.Record) (bool, bool) { return labelled(r.Offset), !refused(r.Offset) }
	for _, keep := range []int{0, 1, 64, 200, len(numbers) - 1, len(numbers), len(numbers) + 1} {
		mask, err := keepLabels(t.Context(), &source{n: records}, keep, seed, admit)
		if keep >= len(numbers) {
			if (err != nil) != (keep > len(numbers)) || mask != nil {
				t.Errorf("%d of %d: error %v, mask of some %v", keep, len(numbers), err, mask != nil)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 * examples { // a second pass is masked as the first
			if want := slices.Contains(order[:keep], i%examples); mask(i) != want {
				t.Errorf("%d of %d: example %d keeps its label: %v, want %v", keep, len(numbers), i, mask(i), want)
			}
		}
	}
}

// source gives n empty records, one at a time.
type source struct{ n, at int64 }

func (s *source) Fetch(_ context.Context, dst []stream.Record) ([]stream.Record, error) {
	if s.at == s.n {
		return dst, io.EOF
	}
	s.at++
	return append(dst, stream.Record{Offset: s.at - 1}), nil
}

func (s *source) Close() error { return nil }
