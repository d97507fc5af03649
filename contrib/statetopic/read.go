package statetopic

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// ReadOptions are the options of Read.
type ReadOptions struct {
	kafkaio.Config
	Topic string
	// Name restricts Read to the state of that name; empty is all.
	Name string
	// MaxDown and TopicWait are as in kafkaio.SourceOptions.
	MaxDown, TopicWait time.Duration
}

// State describes the contents of a topic for one state at one time.
type State struct {
	Name string
	// ID is the identity of the state. Epoch is the epoch of the newest claim, By its
	// process, which began At, and Writer its transactional id.
	ID     string
	Epoch  uint64
	By     string
	At     time.Time
	Writer string
	// Err says why the newest claim cannot be read.
	Err error
	// Snapshots are the snapshots with a head, the newest first.
	Snapshots []Snapshot
}

// Snapshot is the content of a slot of a state.
type Snapshot struct {
	Slot   int
	Offset int64 // of the head
	// Path is kafka://TOPIC/NAME/SLOT.
	Path string
	// Snapshot is nil if Err is not nil.
	*checkpoint.Snapshot
	Err error
}

// Newest returns the newest valid snapshot, nil if there is none at all, and the error
// of the newest one if none is valid.
func (s *State) Newest() (*checkpoint.Snapshot, error) {
	for i := range s.Snapshots {
		if s.Snapshots[i].Err == nil {
			return s.Snapshots[i].Snapshot, nil
		}
	}
	if len(s.Snapshots) > 0 {
		return nil, s.Snapshots[0].Err
	}
	return nil, s.Err
}

// Read reads a state topic from its beginning to its present end, and returns the states
// in order of their names. It changes nothing: it creates no topic and fences no writer.
func Read(ctx context.Context, o ReadOptions) ([]State, error) {
	found := map[string]*contents{}
	_, _, err := kafkaio.ReadAll(ctx, kafkaio.SourceOptions{
		Config: o.Config, Topics: []string{o.Topic}, UntilEnd: true, TopicWait: o.TopicWait, MaxDown: o.MaxDown,
	}, func(r *stream.Record) {
		name, _, _ := strings.Cut(string(r.Key), "/")
		if k, _, _ := parseKey(r.Key, name); k == foreign || o.Name != "" && o.Name != name {
			return
		}
		c := found[name]
		if c == nil {
			c = &contents{topic: o.Topic, name: name, keep: true}
			found[name] = c
		}
		c.fold(r)
	})
	if err != nil {
		return nil, err
	}
	var out []State
	for _, name := range slices.Sorted(maps.Keys(found)) {
		c := found[name]
		s := State{Name: name, ID: c.claim.Owner, Epoch: c.claim.Epoch, By: c.claim.By, At: c.claim.At, Writer: c.claim.Writer, Err: c.bad}
		for _, slot := range c.order() {
			snap := Snapshot{Slot: slot, Offset: c.slot[slot].at, Path: c.place(slot)}
			snap.Snapshot, snap.Err = c.read(slot)
			s.Snapshots = append(s.Snapshots, snap)
		}
		out = append(out, s)
	}
	return out, nil
}
