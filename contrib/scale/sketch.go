package scale

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/contrib/scale/internal/normal"
	"github.com/streamsvm/streamsvm/internal/app/cli"
)

// A sketch holds the sums over some examples.
type sketch struct {
	path                         string   // where it comes from
	plan                         []byte   // as a model
	classes                      []uint64 // examples
	unlabelled, dead, tombstones uint64   // records
	dim                          int      // of the examples
	sums                         *normal.Sums
}

func (s *sketch) fields(f *state.Fields) {
	if f.Decoding() {
		s.sums = new(normal.Sums)
	}
	f.Bytes("plan", &s.plan)
	f.Uint64s("classes", &s.classes)
	f.Uint64("unlabelled", &s.unlabelled)
	f.Uint64("dead", &s.dead)
	f.Uint64("tombstones", &s.tombstones)
	f.Int("dim", &s.dim)
	f.Group("sums", s.sums.Fields)
	if f.Decoding() && f.Err() == nil && (s.dim < 0 || len(s.classes) != max(s.sums.Heads(), 2)) {
		f.Fail("classes", fmt.Errorf("%d classes of %d targets", len(s.classes), s.sums.Heads()))
	}
}

// String counts the records by outcome.
func (s *sketch) String() string {
	text := fmt.Sprintf("%d examples summed, weight %g, by class %d; %d records unlabelled, %d unusable, %d tombstones",
		s.sums.Len(), s.sums.Mass(), s.classes, s.unlabelled, s.dead, s.tombstones)
	if s.sums.Hinge() {
		text += fmt.Sprintf("; %.3g %% inside the margin", 100*s.sums.Active()/max(s.sums.Mass(), 1)/float64(s.sums.Heads()))
	}
	return text
}

// A file is the magic line, the fields, and the xxh64 of both, little-endian.
const magic = "streamsvm-sketch-1\n"

func (s *sketch) encode() ([]byte, error) {
	data, err := state.Append([]byte(magic), s.fields)
	return binary.LittleEndian.AppendUint64(data, xxhash.Sum64(data)), err
}

// write writes the sketch to standard output.
func (s *sketch) write(c *cli.Call) error {
	data, err := s.encode()
	if err != nil {
		return err
	}
	if !c.Quiet {
		fmt.Fprintln(c.Err, s)
	}
	_, err = c.Out.Write(data)
	return err
}

func readSketch(path string) (*sketch, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &sketch{path: path}
	if err := s.decode(data); err != nil {
		return nil, cli.Fail(cli.Data, fmt.Errorf("%s: %w", path, err))
	}
	return s, nil
}

func (s *sketch) decode(data []byte) error {
	if !bytes.HasPrefix(data, []byte(magic)) || len(data) < len(magic)+8 {
		return errors.New("this is not a sketch of streamsvm sum")
	}
	end := len(data) - 8
	if binary.LittleEndian.Uint64(data[end:]) != xxhash.Sum64(data[:end]) {
		return errors.New("the file is damaged: its checksum is wrong")
	}
	return state.Decode(data[len(magic):end], s.fields)
}

// merge adds the records of o.
func (s *sketch) merge(o *sketch) error {
	if !bytes.Equal(s.plan, o.plan) {
		return errOtherPlan
	}
	if err := s.sums.Merge(o.sums); err != nil {
		return err
	}
	for k, n := range o.classes {
		s.classes[k] += n
	}
	s.unlabelled += o.unlabelled
	s.dead += o.dead
	s.tombstones += o.tombstones
	s.dim = max(s.dim, o.dim)
	return nil
}
