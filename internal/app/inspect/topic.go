package inspect

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// topicDescription is what inspect says about a model topic.
type topicDescription struct {
	Records    uint64           `json:"records"`
	Tombstones uint64           `json:"tombstones"`
	Partitions []topicPartition `json:"partitions"`
	// Rejected counts the records that are of no use to any subscriber;
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
	// Claim says who writes the model; nil where that is not known.
	Claim *claim `json:"claim"`
	// Newest is what a subscriber gets, with all deltas applied.
	Newest *newestModel `json:"newest"`
	// Updates are all of which there is a record, oldest first.
	Updates []heldUpdate `json:"updates"`
}

type claim struct {
	Epoch uint64    `json:"epoch"`
	Owner string    `json:"owner"`
	By    string    `json:"by"`
	At    time.Time `json:"at"`
}

type newestModel struct {
	Version       uint64                 `json:"version"`
	Epoch         uint64                 `json:"epoch"`
	Step          uint64                 `json:"step"`
	Examples      uint64                 `json:"examples"`
	Created       time.Time              `json:"created"`
	Bytes         int                    `json:"bytes"`
	Hash          string                 `json:"hash"`
	Learner       string                 `json:"learner"`
	Task          string                 `json:"task,omitempty"`
	Model         string                 `json:"model,omitempty"`
	ModelKind     string                 `json:"model_kind,omitempty"`
	Preprocessing string                 `json:"preprocessing,omitempty"`
	Signature     *signature             `json:"signature,omitempty"`
	Options       map[string]string      `json:"options,omitempty"`
	Offsets       []Partition            `json:"offsets"`
	Evaluation    map[string]eval.Number `json:"evaluation"`
	measures      []stream.Measure       // Evaluation in order
	Damage        string                 `json:"damage,omitempty"` // why it cannot be decoded
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
	Held      uint64    `json:"held"` // chunks that are there
	Partition int32     `json:"partition"`
	First     int64     `json:"first"` // offsets
	Last      int64     `json:"last"`
	State     string    `json:"state"`
	SignedBy  string    `json:"signed_by,omitempty"`
	// Promotion is that of an alias.
	Promotion *promotion `json:"promotion,omitempty"`
	Error     string     `json:"error,omitempty"`
}

type promotion struct {
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	Reason   string    `json:"reason,omitempty"`
	Previous uint64    `json:"previous"` // version; 0 is none
}

// Topic describes a model topic. The error says what is damaged; the description
// is there all the same.
func Topic(t *modeltopic.Contents) (*Description, error) {
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
			Bytes: u.Size, Hash: hash(u.Hash), Verified: u.Verified, Chunks: u.Chunks, Held: u.Held,
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
	m.Newest = &newestModel{
		Version: u.Version, Epoch: u.Epoch, Step: u.Step, Examples: u.Examples, Created: u.Created, Bytes: len(u.Payload), Hash: hash(u.Hash),
		Learner: u.Learner, Offsets: Positions(u.Offsets), Evaluation: map[string]eval.Number{}, measures: u.Evaluation,
	}
	for _, e := range u.Evaluation {
		m.Newest.Evaluation[e.Name] = eval.Number(e.Value)
	}
	p, err := predictor.Decode(u.Payload)
	if err != nil {
		m.Newest.Damage = err.Error()
		return m
	}
	info := p.Info()
	m.Newest.Task, m.Newest.Model, m.Newest.ModelKind = string(p.Task()), info.Text, string(info.Kind)
	m.Newest.Preprocessing, m.Newest.Options, m.Newest.Signature = p.Preprocessing(), p.Options(), newSignature(p.Signature())
	return m
}

// damage says in a few words what is wrong with the model; empty is nothing. A
// full that is not complete may be on its way.
func (m *topicModel) damage() string {
	var found []string
	if m.Newest == nil && len(m.Updates) > 0 {
		found = append(found, "there is no full that a subscriber could use")
	} else if m.Newest != nil && m.Newest.Damage != "" {
		found = append(found, fmt.Sprintf("version %d cannot be decoded: %s", m.Newest.Version, m.Newest.Damage))
	}
	for _, s := range []modeltopic.State{modeltopic.StateDamaged, modeltopic.StateUnchained} {
		if us := m.in(s, ""); len(us) > 0 {
			found = append(found, fmt.Sprintf("updates that are %s: %d", s, len(us)))
		}
	}
	return strings.Join(found, ", ")
}

// in returns the updates in a state, of a kind unless that is empty.
func (m *topicModel) in(s modeltopic.State, kind stream.UpdateKind) []heldUpdate {
	var out []heldUpdate
	for _, u := range m.Updates {
		if u.State == string(s) && (kind == "" || u.Kind == string(kind)) {
			out = append(out, u)
		}
	}
	return out
}

func (t *topicDescription) print(row func(name, format string, args ...any)) {
	row("records", "%d, %d of them tombstones", t.Records, t.Tombstones)
	for _, p := range t.Partitions {
		row(fmt.Sprintf("partition %d", p.Partition), "offsets %d to %d", p.First, p.End-1)
	}
	for i := range t.Models {
		t.Models[i].print(row)
	}
	for _, r := range t.Rejections {
		row("record of no use", "partition %d, offset %d, key %s: %s", r.Partition, r.Offset, r.Key, r.Error)
	}
	if n := t.Rejected - uint64(len(t.Rejections)); n > 0 {
		row("", "and %d more", n)
	}
}

func (m *topicModel) print(row func(name, format string, args ...any)) {
	row("model "+m.Name, "")
	if c := m.Claim; c != nil {
		row("  written by", "%s, epoch %d, since %s", c.By, c.Epoch, c.At.Format(time.RFC3339))
	}
	if len(m.Updates) == 0 {
		row("  versions", "none yet")
	}
	if n := m.Newest; n != nil {
		row("  newest", "version %d, epoch %d, step %d, %d examples, %d bytes, hash %s, verified", n.Version, n.Epoch, n.Step, n.Examples, n.Bytes, n.Hash)
		row("  created", "%s", n.Created.Format(time.RFC3339Nano))
		if n.Damage == "" {
			row("  learner", "%s (%s)", n.Learner, n.Task)
			row("  model", "%s", n.Model)
			row("  preprocessing", "%s", n.Preprocessing)
			if n.Signature != nil {
				n.Signature.print(func(name, format string, args ...any) { row("  "+name, format, args...) })
			}
		} else {
			row("  learner", "%s", n.Learner)
		}
		for _, p := range n.Offsets {
			row(fmt.Sprintf("  %s/%d", p.Topic, p.Partition), "next offset %d", p.Next)
		}
		for _, e := range n.measures {
			row("  "+e.Name, "%.6g", e.Value)
		}
	}
	for _, u := range m.in(modeltopic.StateCurrent, "") {
		if p := u.Promotion; p != nil {
			row("  promoted", "by %q at %s, reason %q, in place of version %d", p.By, p.At.Format(time.RFC3339), p.Reason, p.Previous)
		}
		row("  full", "version %d, %s", u.Version, u.text())
	}
	if ds := m.in(modeltopic.StateApplied, ""); len(ds) > 0 {
		var bytes uint64
		for _, u := range ds {
			bytes += u.Bytes
		}
		row("  deltas", "%d on it, versions %d to %d, %d bytes, verified", len(ds), ds[0].Version, ds[len(ds)-1].Version, bytes)
	}
	for _, s := range []modeltopic.State{modeltopic.StateIncomplete, modeltopic.StateUnchained, modeltopic.StateDamaged} {
		for _, u := range m.in(s, "") {
			what := string(s)
			if s == modeltopic.StateDamaged {
				what = "DAMAGED"
			}
			text := u.text()
			if u.Base > 0 {
				text = fmt.Sprintf("on version %d, %s", u.Base, text)
			}
			if u.Error != "" {
				text += ": " + u.Error
			}
			row("  "+what, "%s version %d, %s", u.Kind, u.Version, text)
		}
	}
	if fulls, deltas := m.in(modeltopic.StateSuperseded, stream.Full), m.in(modeltopic.StateSuperseded, stream.Delta); len(fulls)+len(deltas) > 0 {
		row("  superseded", "%d fulls, %d deltas, which compaction removes in time", len(fulls), len(deltas))
	}
}

func (u *heldUpdate) text() string {
	s := fmt.Sprintf("%d bytes, %d of %d chunks", u.Bytes, u.Held, u.Chunks)
	s += fmt.Sprintf(" at offsets %d to %d of partition %d", u.First, u.Last, u.Partition)
	if u.Verified {
		s += ", hash " + u.Hash + ", verified"
	}
	if u.SignedBy != "" {
		s += ", signed by " + u.SignedBy
	}
	return s
}
