package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/streamsvm/streamsvm/contrib/synth"
	"github.com/streamsvm/streamsvm/internal/rng"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
)

// input describes the stream.
type input struct {
	args          []string // files, or one generator with its options
	limit         uint64
	passes        int
	shuffle, seed uint64
}

// open returns the stream and the decoder of its records.
func (in *input) open(ctx context.Context, task string) (stream.Source, codec.Codec, error) {
	if name, options, ok := in.generator(); ok {
		// The records are the same as from streamsvm generate.
		dec, err := codec.New("libsvm", codec.Options{Task: task})
		if err != nil {
			return nil, nil, err
		}
		g, err := synth.New(name, in.seed, options)
		if err != nil {
			return nil, nil, err
		}
		if in.limit == 0 {
			in.limit = 500_000
		}
		return synth.NewSource(g, dec, in.limit), dec, nil
	}
	dec, err := decoder(in.args[0], task)
	if err != nil {
		return nil, nil, err
	}
	passes := in.passes
	if passes == 0 {
		passes = math.MaxInt
	}
	if in.shuffle == 0 {
		src, err := fileio.Open(in.args, fileio.Options{Passes: passes})
		return src, dec, err
	}
	src, err := fileio.Open(in.args, fileio.Options{})
	if err != nil {
		return nil, nil, err
	}
	defer src.Close()
	m := &shuffled{seed: in.shuffle, passes: passes}
	for {
		if m.recs, err = src.Fetch(ctx, m.recs); errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
	}
	m.order = make([]int, len(m.recs))
	m.at = len(m.recs)
	return m, dec, nil
}

// generator returns the generator if the arguments name one: a single argument that
// is not a file.
func (in *input) generator() (name string, options map[string]string, ok bool) {
	if len(in.args) != 1 {
		return "", nil, false
	}
	if _, err := os.Stat(in.args[0]); err == nil {
		return "", nil, false
	}
	words := strings.Fields(in.args[0])
	for _, g := range synth.List() {
		ok = ok || len(words) > 0 && g.Name == words[0]
	}
	if !ok {
		return "", nil, false
	}
	set := pairs{}
	for _, w := range words[1:] {
		if set.Set(w) != nil {
			return "", nil, false
		}
	}
	return words[0], set, true
}

// decoder returns the decoder for a data file.
func decoder(path, task string) (codec.Codec, error) {
	name, ok := codec.ByFileName(path)
	if !ok {
		return nil, fmt.Errorf("%s is no generator with options, and the name does not say the format of a file", path)
	}
	return codec.New(name, codec.Options{Task: task})
}

// shuffled is a stream of records in memory, in a different order in each pass. Pass
// p has the order of streamsvm replay --shuffle with seed + p.
type shuffled struct {
	recs         []stream.Record
	order        []int
	seed         uint64
	pass, passes int // passes begun, and their largest number
	at           int // position in order
	next         int64
}

// Fetch implements stream.Source.
func (m *shuffled) Fetch(ctx context.Context, dst []stream.Record) ([]stream.Record, error) {
	if err := ctx.Err(); err != nil {
		return dst, err
	}
	if m.at == len(m.order) {
		if m.pass == m.passes || len(m.recs) == 0 {
			return dst, io.EOF
		}
		for i := range m.order {
			m.order[i] = i
		}
		rng.New(m.seed+uint64(m.pass), "shuffle").Shuffle(len(m.order), func(i, j int) {
			m.order[i], m.order[j] = m.order[j], m.order[i]
		})
		m.pass, m.at = m.pass+1, 0
	}
	n := min(len(m.order)-m.at, 256)
	for _, i := range m.order[m.at : m.at+n] {
		r := m.recs[i]
		r.Partition, r.Offset = 0, m.next
		m.next++
		dst = append(dst, r)
	}
	m.at += n
	return dst, nil
}

// Close implements stream.Source.
func (m *shuffled) Close() error { return nil }
