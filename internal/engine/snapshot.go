package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/stream"
)

// Names of the sections of a snapshot.
const (
	// The number is the version of the format of all states, including the learners'.
	sectionEngine  = "engine.3"
	sectionLearner = "learner"

	// Names of sectionEngine in older versions.
	sectionEngine2 = "engine.2" // lacks the largest index
	sectionBefore  = "engine"
)

// ErrOldState is returned for a checkpoint whose engine or learner state has a format
// that is no longer supported.
var ErrOldState = errors.New("written by an older version of streamsvm, whose states this one does not read: train again from the topic with another checkpoint directory, or go on with the version that wrote it")

// MismatchError says that a checkpoint was made with a different value of a setting.
type MismatchError struct {
	// Setting is the name of a field of Config, in lower case with underscores, or
	// one of dataMeta.
	Setting, Was, Now string
}

func (e *MismatchError) Error() string {
	switch e.Setting {
	case MetaLabels, metaColumns: // the present value may come from the data
		return fmt.Sprintf("its %s are %s, but the stream now has %s", e.Setting, e.Was, e.Now)
	}
	return fmt.Sprintf("the checkpoint was made with %s %q, the configuration says %q", e.Setting, e.Was, e.Now)
}

// Snapshot settles the engine and copies its state, so that it can be stored while
// the engine goes on.
func (e *Engine) Snapshot(ctx context.Context) (*checkpoint.Snapshot, error) {
	if err := e.Settle(ctx); err != nil {
		return nil, err
	}
	// Encoding copies the state, so that the file can be written while learning
	// goes on.
	own, learner, err := e.encode()
	if err != nil {
		return nil, fmt.Errorf("encoding the state: %w", err)
	}
	s := &checkpoint.Snapshot{
		Header: checkpoint.Header{
			StreamSVM: version.String, Learner: e.cfg.Spec.Name, Examples: e.counts.Consumed,
			Offsets: e.Offsets(), StateHash: hash(own, learner), Meta: e.meta(),
		},
		Sections: []checkpoint.Section{{Name: sectionEngine, Data: own}, {Name: sectionLearner, Data: learner}},
	}
	return s, e.publishedSection(s)
}

// meta returns the counts for the header of a snapshot, where they can be read
// without decoding the state.
func (e *Engine) meta() [][2]string {
	c := e.Counts()
	list := [][2]string{
		{"consumed", fmt.Sprint(c.Consumed)}, {"learned", fmt.Sprint(c.Learned)},
		{"sampled_out", fmt.Sprint(c.SampledOut)}, {"dead", fmt.Sprint(c.Dead)}, {"pending", fmt.Sprint(c.Pending)},
	}
	if e.cfg.Join.Used() {
		list = append(list, [2]string{"joined", fmt.Sprint(c.Joined)}, [2]string{"late", fmt.Sprint(c.Late)})
	}
	if c.Tombstones > 0 {
		list = append(list, [2]string{"tombstones", fmt.Sprint(c.Tombstones)})
	}
	return append(list, e.dataMeta()...)
}

// dataMeta returns the properties of the data that must not change between runs.
// They are in the header, not in the state, because the same examples may come in
// another codec.
func (e *Engine) dataMeta() (list [][2]string) {
	if s := &e.cfg.Signature; s.Labels != "" {
		list = append(list, [2]string{MetaLabels, s.Labels})
	}
	if names := e.cfg.Signature.Features(); names != nil {
		list = append(list, [2]string{metaColumns, strings.Join(names, ",")})
	}
	if s := e.cfg.Signature.Schema; s != "" {
		list = append(list, [2]string{MetaSchema, s})
	}
	return list
}

// Names in the header of a snapshot; see dataMeta.
const (
	MetaLabels  = "labels"
	MetaSchema  = "schema"
	metaColumns = "columns"
)

// sameData returns an error if the snapshot belongs to other data.
func (e *Engine) sameData(s *checkpoint.Snapshot) error {
	for _, now := range e.dataMeta() {
		for _, was := range s.Header.Meta {
			if was[0] == now[0] && was[1] != now[1] {
				return fmt.Errorf("checkpoint of %d examples: %w", s.Header.Examples, &MismatchError{now[0], was[1], now[1]})
			}
		}
	}
	return nil
}

// Restore sets a new engine to the state of a snapshot that was taken under the same
// configuration. After an error the engine cannot be used.
func (e *Engine) Restore(s *checkpoint.Snapshot) error {
	if _, old := s.Section(sectionBefore); old {
		return fmt.Errorf("checkpoint of %d examples: %w", s.Header.Examples, ErrOldState)
	}
	own, ok1 := s.Section(sectionEngine)
	if !ok1 {
		own, ok1 = s.Section(sectionEngine2)
		e.version2 = true
		defer func() { e.version2 = false }()
	}
	learner, ok2 := s.Section(sectionLearner)
	if !ok1 || !ok2 {
		return errors.New("the checkpoint lacks a section; it was not written by a trainer")
	}
	if s.Header.Learner != e.cfg.Spec.Name {
		return fmt.Errorf("checkpoint of %d examples: %w", s.Header.Examples, &MismatchError{"learner", s.Header.Learner, e.cfg.Spec.Name})
	}
	if err := e.sameData(s); err != nil {
		return err
	}
	if err := e.decode(own, learner); err != nil {
		if other := (*MismatchError)(nil); errors.As(err, &other) {
			err = other // the position in the file would not help
		}
		return fmt.Errorf("checkpoint of %d examples: %w", s.Header.Examples, err)
	}
	e.setCosts()
	e.restorePublished(s)
	return nil
}

// Hash returns the xxh64 of the complete encoded state.
func (e *Engine) Hash() (uint64, error) {
	own, learner, err := e.encode()
	return hash(own, learner), err
}

func hash(own, learner []byte) uint64 {
	h := xxhash.New()
	_, _ = h.Write(own)
	_, _ = h.Write(learner)
	return h.Sum64()
}

// Evaluation returns the measures that describe the engine, in a fixed order.
func (e *Engine) Evaluation() []stream.Measure {
	r := e.Report()
	ms := append(e.preq.Measures(),
		stream.Measure{Name: "objective", Value: r.Objective},
		stream.Measure{Name: "certificate", Value: r.Certificate},
		stream.Measure{Name: "gradient_norm", Value: r.GradNorm},
		stream.Measure{Name: "sample", Value: float64(r.Sample)},
	)
	return slices.Clip(append(ms, r.Gauges...))
}
