// Package describe has the JSON forms of model updates and positions.
package describe

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

// Partition is a position in a partition.
type Partition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Next is the offset of the next record to read.
	Next int64 `json:"next"`
	// First and Records are set for a recording.
	First   *int64 `json:"first,omitempty"`
	Records uint64 `json:"records,omitempty"`
}

// Positions returns offsets in order of their partitions.
func Positions(o stream.Offsets) []Partition {
	list := []Partition{}
	for _, p := range o.Partitions() {
		list = append(list, Partition{Topic: p.Topic, Partition: p.ID, Next: o[p]})
	}
	return list
}

// Update describes a complete update of a model.
type Update struct {
	Version    uint64                 `json:"version"`
	Epoch      uint64                 `json:"epoch"`
	Step       uint64                 `json:"step"`
	Examples   uint64                 `json:"examples"`
	Created    time.Time              `json:"created"`
	Bytes      int                    `json:"bytes"`
	Hash       string                 `json:"hash"`
	Offsets    []Partition            `json:"offsets"`
	Evaluation map[string]eval.Number `json:"evaluation"`
}

// NewUpdate describes u.
func NewUpdate(u *stream.Update) Update {
	return Update{u.Version, u.Epoch, u.Step, u.Examples, u.Created, len(u.Payload), Hash(u.Hash), Positions(u.Offsets), Measures(u.Evaluation)}
}

// Measures returns measures by name.
func Measures(list []stream.Measure) map[string]eval.Number {
	byName := map[string]eval.Number{}
	for _, m := range list {
		byName[m.Name] = eval.Number(m.Value)
	}
	return byName
}

// ReadModel reads a model from a file. The error's exit code says whether the file or its
// content is the cause.
func ReadModel(path string) (*predictor.Predictor, error) {
	p, err := predictor.Load(path)
	if file := (*fs.PathError)(nil); err != nil && !errors.As(err, &file) {
		err = cli.Fail(cli.Data, err)
	}
	return p, err
}

// Hash formats a hash as it is printed everywhere.
func Hash(h uint64) string { return fmt.Sprintf("%016x", h) }
