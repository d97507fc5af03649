package inspect

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// topicDescription is the description of a model topic.
type topicDescription struct {
	Records    uint64           `json:"records"`
	Tombstones uint64           `json:"tombstones"`
	Partitions []topicPartition `json:"partitions"`
	// Rejected counts the records that no subscriber can use;
	// Rejections has the first of them.
	Rejected   uint64       `json:"rejected"`
	Rejections []rejection  `json:"rejections"`
	Models     []topicModel `json:"models"`
}

type topicPartition struct {
	Partition int32 `json:"partition"`
	First     int64 `json:"first"`
	End       int64 `json:"end"` // one more than the largest offset
}

type rejection struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Key       string `json:"key"`
	Error     string `json:"error"`
}

// topicModel is one model of a topic.
type topicModel struct {
	Name string `json:"name"`
	// Claim names the writer of the model; nil if it is unknown.
	Claim *claim `json:"claim"`
	// Newest is the model that a subscriber gets, with all deltas applied.
	Newest *newestModel `json:"newest"`
	// Updates are all updates with a record in the topic, oldest first.
	Updates []heldUpdate `json:"updates"`
}

type claim struct {
	Epoch uint64    `json:"epoch"`
	Owner string    `json:"owner"`
	By    string    `json:"by"`
	At    time.Time `json:"at"`
}

type newestModel struct {
	describe.Update
	modelInfo
	Damage string `json:"damage,omitempty"` // why it cannot be decoded
}

type heldUpdate struct {
	Kind      string    `json:"kind"`
	Version   uint64    `json:"version"`
	Base      uint64    `json:"base,omitempty"`
	Epoch     uint64    `json:"epoch"`
	Step      uint64    `json:"step"`
	Examples  uint64    `json:"examples"`
	Created   time.Time `json:"created"`
	Bytes     uint64    `json:"bytes"`
	Hash      string    `json:"hash"`
	Verified  bool      `json:"verified"`
	Chunks    uint64    `json:"chunks"`
	Held      uint64    `json:"held"` // chunks that are retained
	Partition int32     `json:"partition"`
	First     int64     `json:"first"` // offsets
	Last      int64     `json:"last"`
	State     string    `json:"state"`
	SignedBy  string    `json:"signed_by,omitempty"`
	// Promotion describes the promotion of an alias.
	Promotion *promotion `json:"promotion,omitempty"`
	Error     string     `json:"error,omitempty"`
}

type promotion struct {
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	Reason   string    `json:"reason,omitempty"`
	Previous uint64    `json:"previous"` // version; 0 is none
}

// describeTopic describes a model topic. An error about damage comes with the description.
func describeTopic(t *modeltopic.Contents) (*Description, error) {
	d := &Description{Path: t.Topic, Kind: "model topic", Topic: &topicDescription{
		Records: t.Records, Tombstones: t.Tombstones, Rejected: t.Rejected,
		Partitions: []topicPartition{}, Rejections: []rejection{}, Models: []topicModel{},
	}}
	for _, p := range t.End.Partitions() {
		d.Topic.Partitions = append(d.Topic.Partitions, topicPartition{p.ID, t.First[p], t.End[p]})
	}
	for _, r := range t.Rejections {
		d.Topic.Rejections = append(d.Topic.Rejections, rejection{r.Partition.ID, r.Offset, r.Key, r.Err.Error()})
	}
	var damage []string
	for i := range t.Models {
		m := newTopicModel(&t.Models[i])
		d.Topic.Models = append(d.Topic.Models, m)
		if problem := m.damage(); problem != "" {
			damage = append(damage, fmt.Sprintf("model %s: %s", m.Name, problem))
		}
		for _, u := range m.Updates {
			d.Bytes += int64(u.Bytes)
		}
	}
	if t.Rejected > 0 {
		damage = append(damage, fmt.Sprintf("records of no use: %d", t.Rejected))
	}
	if len(damage) == 0 {
		return d, nil
	}
	d.Damage = strings.Join(damage, "; ")
	return d, cli.Fail(cli.Data, errors.New("topic "+t.Topic+": "+d.Damage))
}

func newTopicModel(c *modeltopic.Model) topicModel {
	m := topicModel{Name: c.Name, Updates: []heldUpdate{}}
	if w := c.Claim; w.Owner != "" {
		m.Claim = &claim{w.Epoch, w.Owner, w.By, w.At}
	}
	for _, u := range c.Updates {
		h := heldUpdate{
			Kind: string(u.Kind), Version: u.Version, Base: u.Base, Epoch: u.Epoch, Step: u.Step, Examples: u.Examples, Created: u.Created,
			Bytes: u.Size, Hash: describe.Hash(u.Hash), Verified: u.Verified, Chunks: u.Chunks, Held: u.Held,
			Partition: u.Partition.ID, First: u.First, Last: u.Last, State: string(u.State), SignedBy: u.SignedBy,
		}
		if p := u.Promotion; p != nil {
			h.Promotion = &promotion{p.By, u.PromotedAt, p.Reason, p.Previous}
		}
		if u.Err != nil {
			h.Error = u.Err.Error()
		}
		m.Updates = append(m.Updates, h)
	}
	u := c.Newest
	if u == nil {
		return m
	}
	m.Newest = &newestModel{Update: describe.NewUpdate(u), modelInfo: modelInfo{Learner: u.Learner}}
	p, err := predictor.Decode(u.Payload)
	if err != nil {
		m.Newest.Damage = err.Error()
		return m
	}
	m.Newest.modelInfo = newModelInfo(p)
	return m
}

// damage summarizes the damage to the model; "" is none. An incomplete full is not
// damage: it may still be arriving.
func (m *topicModel) damage() string {
	var found []string
	if m.Newest == nil && len(m.Updates) > 0 {
		found = append(found, "there is no full update that a subscriber could use")
	} else if m.Newest != nil && m.Newest.Damage != "" {
		found = append(found, fmt.Sprintf("version %d cannot be decoded: %s", m.Newest.Version, m.Newest.Damage))
	}
	for _, s := range []modeltopic.State{modeltopic.StateDamaged, modeltopic.StateUnchained} {
		n := 0
		for _, u := range m.Updates {
			if u.State == string(s) {
				n++
			}
		}
		if n > 0 {
			found = append(found, fmt.Sprintf("updates that are %s: %d", s, n))
		}
	}
	return strings.Join(found, ", ")
}
