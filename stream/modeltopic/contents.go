package modeltopic

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint/state"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// ReadOptions of Read.
type ReadOptions struct {
	kafkaio.Config
	// Topic is the model topic.
	Topic string
	// Model restricts the contents to the model of that name; empty is all.
	Model string
	// Version, if not 0, is a version of which the topic may still hold all that
	// it is made of, though there are newer ones: see Model.Wanted.
	Version uint64
	// TrustedKeys, if there are any, are those of which an update must have the
	// signature of one to be of use.
	TrustedKeys []ed25519.PublicKey
	// MaxModelBytes bounds a payload; 0 is 1 GiB.
	MaxModelBytes int64
	// TopicWait and MaxDown are as in kafkaio.SourceOptions.
	TopicWait, MaxDown time.Duration
}

// Contents is what a model topic held at one time.
type Contents struct {
	Topic string
	// First and End bound the offsets of every partition: First ≤ o < End.
	First, End stream.Offsets
	// Records counts all, Tombstones those without a value.
	Records, Tombstones uint64
	// Rejected counts the records that are of no use to any subscriber, or have
	// completed an update that is not; Rejections has the first of them.
	Rejected   uint64
	Rejections []Rejection
	Models     []Model // in order of their names
}

// Rejection says what is wrong with a record.
type Rejection struct {
	Partition stream.Partition
	Offset    int64
	Key       string // at most 64 bytes, quoted
	Err       error
}

// rejectionMax bounds Contents.Rejections.
const rejectionMax = 20

// Model is what a model topic holds of one model.
type Model struct {
	Name string
	// Claim is the newest, zero if there is none.
	Claim Claim
	// Newest is what a subscriber gets that joins now, with all deltas applied
	// and the payload's hash verified; nil if there is no full that can be used.
	Newest *stream.Update
	// Wanted is what a subscriber got when ReadOptions.Version was the newest, nil
	// if that can no longer be told.
	Wanted *stream.Update
	// Updates are those of which there is a record, in order of epoch, version
	// and kind. Offsets are those of updates that are not StateSuperseded only, and
	// so is Evaluation unless they have been Verified. There is none of a model that a trainer has announced
	// and not published yet.
	Updates []HeldUpdate
}

// State says what an update in a model topic is good for.
type State string

// The states of updates.
const (
	// StateCurrent: the full that Newest is made of.
	StateCurrent State = "current"
	// StateApplied: a delta that Newest is made of.
	StateApplied State = "applied"
	// StateSuperseded: older than Newest, or of a trainer that has been replaced.
	StateSuperseded State = "superseded"
	// StateIncomplete: newer than Newest, but not all of its chunks are there: it is
	// being written, or its writer was interrupted.
	StateIncomplete State = "incomplete"
	// StateUnchained: a delta newer than Newest whose base is not there.
	StateUnchained State = "unchained"
	// StateDamaged: a chunk or the payload does not have the hash that it should
	// have, or the update contradicts itself.
	StateDamaged State = "damaged"
)

// HeldUpdate is an update as a model topic holds it.
type HeldUpdate struct {
	stream.Update // without the payload; Hash is that of the payload
	// Size is the length of the payload.
	Size uint64
	// Chunks is the number of records that the update has, Held of how many of
	// them there is one.
	Chunks, Held uint64
	Partition    stream.Partition
	// First and Last are the smallest and largest offset of its records.
	First, Last int64
	State       State
	// Promotion and PromotedAt are those of an alias, nil of another model.
	Promotion  *stream.Promotion
	PromotedAt time.Time
	// SignedBy is the KeyID of the signature, empty if there is none. It has been
	// checked where Verified is true and there are TrustedKeys.
	SignedBy string
	// Verified says that the payload has been put together and has its hash.
	// Those that were superseded when they were read have not been.
	Verified bool
	// Err says what is damaged.
	Err error
}

// Read reads a model topic from its beginning to the end that it has now,
// and describes what it holds. It changes nothing: no topic is created, no group
// told of it. It holds the newest payload of every model, and while it reads up
// to five times as much as the largest. Its errors are those of
// kafkaio.NewSource and of reading; what is wrong with records is part of the result.
func Read(ctx context.Context, o ReadOptions) (*Contents, error) {
	if o.Model != "" {
		if err := checkName(o.Model); err != nil {
			return nil, err
		}
	}
	if o.Topic == "" || o.MaxModelBytes < 0 {
		return nil, errors.New("kafka: no topic given, or a negative limit")
	}
	if o.MaxModelBytes == 0 {
		o.MaxModelBytes = 1 << 30
	}
	s := &surveyor{opt: o, topic: &Contents{Topic: o.Topic}, models: map[string]*survey{}}
	err := checkKeys(nil, o.TrustedKeys)
	if err != nil {
		return nil, err
	}
	s.topic.First, s.topic.End, err = kafkaio.ReadAll(ctx, kafkaio.SourceOptions{
		Config: o.Config, Topics: []string{o.Topic}, UntilEnd: true, TopicWait: o.TopicWait, MaxDown: o.MaxDown,
	}, s.take)
	if err != nil {
		return nil, err
	}
	return s.result(), nil
}

// surveyor makes Contents of records.
type surveyor struct {
	opt    ReadOptions
	topic  *Contents
	models map[string]*survey
}

// survey is what is known of one model.
type survey struct {
	a     *assembler
	held  map[updateKey]*held
	chain []*held // that the newest update is made of, the full first
	claim Claim
	want  *stream.Update
}

// updateKey is what chunks of one update have in common.
type updateKey struct {
	epoch, version, hash, size, chunks uint64
	kind                               stream.UpdateKind
}

type held struct {
	HeldUpdate
	chunks map[uint64]struct{}
}

func (s *surveyor) take(r *stream.Record) {
	s.topic.Records++
	if r.Value == nil {
		s.topic.Tombstones++
		return
	}
	// What the record says of itself, be it right or not.
	e := new(envelope)
	if err := state.Decode(r.Value, e.fields); err != nil || e.Model == "" || len(e.Model) > maxName {
		if err == nil {
			err = errors.New("model: the name is missing or too long")
		}
		// The key tells whether it is another model's.
		if name, _, ok := strings.Cut(string(r.Key), "/"); s.opt.Model == "" || !ok || name == s.opt.Model {
			s.reject(r, err)
		}
		return
	}
	if s.opt.Model != "" && e.Model != s.opt.Model {
		return
	}
	m := s.models[e.Model]
	if m == nil {
		m = &survey{a: &assembler{model: e.Model, limit: uint64(s.opt.MaxModelBytes), deltas: true, keys: s.opt.TrustedKeys}, held: map[updateKey]*held{}}
		s.models[e.Model] = m
	}
	if e.Kind == claim {
		if _, err := m.a.add(r); err != nil {
			s.reject(r, err)
		} else if e.Epoch >= m.claim.Epoch {
			m.claim = Claim{e.Epoch, e.owner, e.by, e.Created}
		}
		return
	}
	h := m.record(r, e)
	done, err := m.a.add(r)
	if err != nil {
		h.Err = cmp.Or(h.Err, err)
		s.reject(r, err)
	}
	if !done {
		return
	}
	h.Verified = true
	if h.Kind == stream.Full {
		for _, old := range m.chain {
			old.Offsets = nil
		}
		m.chain = m.chain[:0]
	}
	if m.a.cur.Version == s.opt.Version {
		m.want = m.a.cur
	}
	m.chain = append(m.chain, h)
}

// record notes that there is a chunk of e's update.
func (m *survey) record(r *stream.Record, e *envelope) *held {
	k := updateKey{e.Epoch, e.Version, e.Hash, e.size, e.chunks, e.Kind}
	h := m.held[k]
	if h == nil {
		h = &held{chunks: map[uint64]struct{}{}, HeldUpdate: HeldUpdate{
			Update: e.Update, Size: e.size, Chunks: e.chunks, First: r.Offset, Partition: stream.Partition{Topic: r.Topic, ID: r.Partition},
		}}
		m.held[k] = h
	}
	h.First, h.Last = min(h.First, r.Offset), max(h.Last, r.Offset)
	h.chunks[e.chunk] = struct{}{}
	if e.chunk == 0 {
		about := aboutOf(r)
		if h.SignedBy = ""; about.signature != "" {
			h.SignedBy = signedBy(about.signature)
		}
		if about.promoted {
			h.Promotion, h.PromotedAt = &about.promotion, about.at
		}
	}
	return h
}

func (s *surveyor) reject(r *stream.Record, err error) {
	s.topic.Rejected++
	if len(s.topic.Rejections) < rejectionMax {
		s.topic.Rejections = append(s.topic.Rejections, Rejection{
			Partition: stream.Partition{Topic: r.Topic, ID: r.Partition}, Offset: r.Offset, Key: fmt.Sprintf("%.64q", r.Key), Err: err,
		})
	}
}

func (s *surveyor) result() *Contents {
	for _, name := range slices.Sorted(maps.Keys(s.models)) {
		m := s.models[name]
		c := Model{Name: name, Claim: m.claim}
		if m.a.cur != nil {
			u := *m.a.cur
			c.Newest = &u
		}
		if m.want != nil {
			u := *m.want
			c.Wanted = &u
		}
		for _, h := range m.held {
			h.Held = uint64(len(h.chunks))
			h.State = m.state(h)
			if h.State == StateSuperseded {
				h.Offsets = nil
				if !h.Verified {
					h.Evaluation = nil
				}
			}
			c.Updates = append(c.Updates, h.HeldUpdate)
		}
		slices.SortFunc(c.Updates, func(a, b HeldUpdate) int {
			return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.First, b.First))
		})
		s.topic.Models = append(s.topic.Models, c)
	}
	return s.topic
}

func (m *survey) state(h *held) State {
	switch i := slices.Index(m.chain, h); {
	case i == 0:
		return StateCurrent
	case i > 0:
		return StateApplied
	case h.Err != nil:
		return StateDamaged
	case h.Epoch < m.a.epoch:
		return StateSuperseded
	case m.a.cur != nil && cmp.Or(cmp.Compare(h.Epoch, m.a.cur.Epoch), cmp.Compare(h.Version, m.a.cur.Version)) <= 0:
		return StateSuperseded
	case h.Held < h.Chunks:
		return StateIncomplete
	default:
		return StateUnchained
	}
}
