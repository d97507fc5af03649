package modeltopic

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// ReadOptions are the options of Read.
type ReadOptions struct {
	kafkaio.Config
	// Topic is the model topic.
	Topic string
	// Model restricts the contents to the model of that name; empty is all.
	Model string
	// Version, if not 0, is an older version to return too: see Model.Wanted.
	Version uint64
	// TrustedKeys, if not empty, restricts Read to updates that are signed with one of
	// them.
	TrustedKeys []ed25519.PublicKey
	// TopicWait and MaxDown are as in kafkaio.SourceOptions.
	TopicWait, MaxDown time.Duration
}

// Contents describes the contents of a model topic at one time.
type Contents struct {
	Topic string
	// First and End bound the offsets of every partition: First ≤ o < End.
	First, End stream.Offsets
	// Records counts all records, Tombstones those without a value.
	Records, Tombstones uint64
	// Rejected counts records that no subscriber can use, or that complete an update
	// that none can use; Rejections has the first of them.
	Rejected   uint64
	Rejections []Rejection
	Models     []Model // in order of their names
}

// Rejection is the reason why a record cannot be used.
type Rejection struct {
	Partition stream.Partition
	Offset    int64
	Key       string // at most 64 bytes, quoted
	Err       error
}

// rejectionMax bounds Contents.Rejections.
const rejectionMax = 20

// Model describes the records of one model in a model topic.
type Model struct {
	Name string
	// Claim is the newest claim, zero if there is none.
	Claim Claim
	// Newest is the update that a subscriber that joins now gets, with all deltas applied
	// and the payload's hash verified; nil if there is no usable full.
	Newest *stream.Update
	// Wanted is the update that a subscriber got while ReadOptions.Version was the newest;
	// nil if the topic no longer holds all of it.
	Wanted *stream.Update
	// Updates are those with at least one record, in order of epoch, version and kind.
	// Superseded ones have no Offsets and, unless Verified, no Evaluation. A model that
	// a trainer has claimed and not published yet has none.
	Updates []RetainedUpdate
}

// State says whether an update in a model topic is in use.
type State string

// The states of updates.
const (
	// StateCurrent: the full on which Newest is based.
	StateCurrent State = "current"
	// StateApplied: a delta applied to get Newest.
	StateApplied State = "applied"
	// StateSuperseded: older than Newest, or from a trainer that has been replaced.
	StateSuperseded State = "superseded"
	// StateIncomplete: newer than Newest, but some chunks are missing: it is being
	// written, or its writer was interrupted.
	StateIncomplete State = "incomplete"
	// StateUnchained: a delta newer than Newest whose base is missing.
	StateUnchained State = "unchained"
	// StateDamaged: a chunk or the payload has the wrong hash, or the update contradicts
	// itself.
	StateDamaged State = "damaged"
)

// RetainedUpdate is an update with records that are retained in a model topic.
type RetainedUpdate struct {
	stream.Update // without the payload; Hash is the hash of the payload
	// Size is the length of the payload.
	Size uint64
	// Chunks is the number of chunks of the update, Held the number of them that are
	// retained.
	Chunks, Held uint64
	Partition    stream.Partition
	// First and Last are the smallest and largest offset of its records.
	First, Last int64
	State       State
	// Promotion and PromotedAt describe an alias; for other models Promotion is nil.
	Promotion  *stream.Promotion
	PromotedAt time.Time
	// SignedBy is the KeyID of the signature, empty if there is none. The signature has
	// been checked if Verified is true and there are TrustedKeys.
	SignedBy string
	// Verified says that the payload is complete and has the right hash. Updates that
	// were already superseded when they were read are not verified.
	Verified bool
	// Err describes the damage.
	Err error
}

// Read reads a model topic from its beginning to its present end, and describes its
// contents. It changes nothing on the cluster. It keeps the newest payload of every
// model in memory, and while it reads up to five times the largest one. Its errors come
// from kafkaio.NewSource and from reading; errors in records are part of the result.
func Read(ctx context.Context, o ReadOptions) (*Contents, error) {
	if o.Model != "" {
		if err := CheckName(o.Model); err != nil {
			return nil, err
		}
	}
	if o.Topic == "" {
		return nil, errors.New("kafka: no topic given")
	}
	if err := checkKeys(nil, o.TrustedKeys); err != nil {
		return nil, err
	}
	s := newScan(o)
	var err error
	s.topic.First, s.topic.End, err = kafkaio.ReadAll(ctx, kafkaio.SourceOptions{
		Config: o.Config, Topics: []string{o.Topic}, UntilEnd: true, TopicWait: o.TopicWait, MaxDown: o.MaxDown,
	}, s.take)
	if err != nil {
		return nil, err
	}
	return s.result(), nil
}

// scan builds Contents from records.
type scan struct {
	opt    ReadOptions
	topic  *Contents
	models map[string]*scanned
}

func newScan(o ReadOptions) *scan {
	return &scan{opt: o, topic: &Contents{Topic: o.Topic}, models: map[string]*scanned{}}
}

// scanned is the state of one model during a scan.
type scanned struct {
	assembler
	updates map[updateKey]*retained
	chain   []*retained // of the newest update, the full first
	claim   Claim
	wanted  *stream.Update
}

// updateKey identifies the update that a chunk belongs to.
type updateKey struct {
	epoch, version, hash, size, chunks uint64
	kind                               stream.UpdateKind
}

// retained is an update and the set of its retained chunks.
type retained struct {
	RetainedUpdate
	chunks map[uint64]struct{}
}

func (s *scan) take(r *stream.Record) {
	s.topic.Records++
	if r.Value == nil {
		s.topic.Tombstones++
		name, _, _ := strings.Cut(string(r.Key), "/")
		if m := s.models[name]; m != nil && deletes(r, name) {
			_, _ = m.add(r)
			m.updates, m.chain, m.wanted = map[updateKey]*retained{}, nil, nil
		}
		return
	}
	e, err := peek(r.Value)
	if err != nil {
		// The key says whether the record belongs to another model.
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
		m = &scanned{updates: map[updateKey]*retained{}, assembler: assembler{model: e.Model, limit: maxPayload, deltas: true, keys: s.opt.TrustedKeys}}
		s.models[e.Model] = m
	}
	done, err := m.add(r)
	if err != nil {
		s.reject(r, err)
	}
	if e.Kind == claim {
		if err == nil && e.Epoch >= m.claim.Epoch {
			m.claim = e.claim()
		}
		return
	}
	u := m.update(r, e)
	if u.Err = cmp.Or(u.Err, err); !done {
		return
	}
	u.Verified = true
	if u.Kind == stream.Full {
		for _, old := range m.chain {
			old.Offsets = nil
		}
		m.chain = m.chain[:0]
	}
	if m.cur.Version == s.opt.Version {
		m.wanted = m.cur
	}
	m.chain = append(m.chain, u)
}

// update returns the update that the chunk r belongs to, after counting r.
func (m *scanned) update(r *stream.Record, e *envelope) *retained {
	k := updateKey{e.Epoch, e.Version, e.Hash, e.size, e.chunks, e.Kind}
	u := m.updates[k]
	if u == nil {
		u = &retained{chunks: map[uint64]struct{}{}, RetainedUpdate: RetainedUpdate{
			Update: e.Update, Size: e.size, Chunks: e.chunks, First: r.Offset, Partition: stream.Partition{Topic: r.Topic, ID: r.Partition},
		}}
		m.updates[k] = u
	}
	u.First, u.Last = min(u.First, r.Offset), max(u.Last, r.Offset)
	u.chunks[e.chunk] = struct{}{}
	if e.chunk == 0 {
		about := aboutOf(r)
		if u.SignedBy = ""; about.signature != "" {
			u.SignedBy = signedBy(about.signature)
		}
		if about.promoted {
			u.Promotion, u.PromotedAt = &about.promotion, about.at
		}
	}
	return u
}

func (s *scan) reject(r *stream.Record, err error) {
	s.topic.Rejected++
	if len(s.topic.Rejections) < rejectionMax {
		s.topic.Rejections = append(s.topic.Rejections, Rejection{
			Partition: stream.Partition{Topic: r.Topic, ID: r.Partition}, Offset: r.Offset, Key: fmt.Sprintf("%.64q", r.Key), Err: err,
		})
	}
}

func (s *scan) result() *Contents {
	for _, name := range slices.Sorted(maps.Keys(s.models)) {
		m := s.models[name]
		c := Model{Name: name, Claim: m.claim, Newest: m.cur, Wanted: m.wanted}
		for _, u := range m.updates {
			u.Held = uint64(len(u.chunks))
			u.State = m.state(u)
			if u.State == StateSuperseded {
				u.Offsets = nil
				if !u.Verified {
					u.Evaluation = nil
				}
			}
			c.Updates = append(c.Updates, u.RetainedUpdate)
		}
		sort.Slice(c.Updates, func(i, j int) bool {
			a, b := &c.Updates[i], &c.Updates[j]
			return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.First, b.First)) < 0
		})
		s.topic.Models = append(s.topic.Models, c)
	}
	return s.topic
}

func (m *scanned) state(u *retained) State {
	switch i := slices.Index(m.chain, u); {
	case i == 0:
		return StateCurrent
	case i > 0:
		return StateApplied
	case u.Err != nil:
		return StateDamaged
	case u.Epoch < m.epoch || m.cur != nil && cmp.Or(cmp.Compare(u.Epoch, m.cur.Epoch), cmp.Compare(u.Version, m.cur.Version)) <= 0:
		return StateSuperseded
	case u.Held < u.Chunks:
		return StateIncomplete
	default:
		return StateUnchained
	}
}
