// Package inspect describes checkpoints, models, recordings and model topics
// without changing them, as text and as JSON.
package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"go.yaml.in/yaml/v3"

	"github.com/streamsvm/streamsvm/algos/model"
	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/contrib/statetopic"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// Description describes a file or a topic.
type Description struct {
	Path  string `json:"path"`
	Kind  string `json:"kind"` // checkpoint, model, recording or model topic
	Bytes int64  `json:"bytes"`
	// Damage describes the damage to the file.
	Damage string `json:"damage,omitempty"`

	// Of a checkpoint.
	Format       uint32            `json:"format,omitempty"`
	Epoch        uint64            `json:"epoch,omitempty"`
	Seq          uint64            `json:"seq,omitempty"`
	Created      *time.Time        `json:"created,omitempty"`
	StreamSVM    string            `json:"streamsvm,omitempty"`
	Examples     uint64            `json:"examples,omitempty"`
	ModelVersion uint64            `json:"model_version,omitempty"`
	StateHash    string            `json:"state_hash,omitempty"`
	Meta         map[string]string `json:"meta,omitempty"`
	Sections     []section         `json:"sections,omitempty"`
	Partitions   []partition       `json:"partitions,omitempty"` // also of a recording

	modelInfo // Learner also of a checkpoint

	// Of a model in a file.
	Features int  `json:"features,omitempty"`
	Support  *int `json:"support,omitempty"`
	Nonzero  *int `json:"nonzero,omitempty"`
	// Of a linear model: its constant term, and the weights of largest magnitude.
	// They apply to features after preprocessing. Hashed is the number of slots, if
	// the features are slots.
	Bias    *float64 `json:"bias,omitempty"`
	Weights []weight `json:"weights,omitempty"`
	Hashed  int      `json:"hashed,omitempty"`

	// Of a model topic.
	Topic *topicDescription `json:"topic,omitempty"`

	// Of a recording.
	Records  uint64 `json:"records,omitempty"`
	Finished *bool  `json:"finished,omitempty"` // the stream came to its end
	Torn     *bool  `json:"torn,omitempty"`     // the writer was interrupted
}

// modelInfo is the description that a model contains.
type modelInfo struct {
	Learner       string            `json:"learner,omitempty"`
	Task          string            `json:"task,omitempty"`
	Model         string            `json:"model,omitempty"`
	ModelKind     string            `json:"model_kind,omitempty"`
	Preprocessing string            `json:"preprocessing,omitempty"`
	Signature     *signature        `json:"signature,omitempty"`
	Options       map[string]string `json:"options,omitempty"`
}

func newModelInfo(p *predictor.Predictor) modelInfo {
	info := p.Info()
	return modelInfo{p.Learner(), string(p.Task()), info.Text, string(info.Kind), p.Preprocessing(), newSignature(p.Signature()), p.Options()}
}

// signature describes the data that a model was trained on, as far as it is known.
type signature struct {
	Codec    string   `json:"codec,omitempty"`
	Labels   []any    `json:"labels,omitempty"` // the negative one first
	Dim      int      `json:"dim,omitempty"`    // of dense examples
	Index    int      `json:"index,omitempty"`  // the largest index of a feature, 1-based
	Features []string `json:"features,omitempty"`
}

func newSignature(s codec.Signature) *signature {
	out := &signature{Codec: s.Codec, Dim: s.Dim, Index: s.Index, Features: s.Features()}
	if s.Labels != "" {
		out.Labels, _ = codec.ParseClasses(s.Labels)
	}
	if out.Codec == "" && out.Index == 0 {
		return nil
	}
	return out
}

// weight is the weight of a feature, which is counted from 1 as in libsvm files.
type weight struct {
	Feature int     `json:"feature"`
	Value   float64 `json:"value"`
}

type section struct {
	Name  string `json:"name"`
	Bytes uint64 `json:"bytes"`
	Hash  string `json:"hash"` // as it was written
	OK    bool   `json:"ok"`
}

type partition = describe.Partition

// The first bytes of the files that inspect knows.
const (
	checkpointMagic = "\x89SSVM"
	recordingMagic  = "\x93SSR"
	predictorMagic  = "streamsvm-predictor-"
)

// File describes a file, or every checkpoint of a directory, newest first. It lists
// up to weights weights of a linear model, largest magnitude first. An error about the
// content of a file comes with its description.
func File(ctx context.Context, path string, weights int) ([]Description, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		store, err := checkpoint.Open(path, checkpoint.Options{})
		if err != nil {
			return nil, err
		}
		files, err := store.Files()
		if err == nil && len(files) == 0 {
			err = cli.Failf(cli.Data, "%s holds no checkpoint", path)
		}
		var all []Description
		for _, file := range files {
			ds, ferr := File(ctx, file, weights)
			all = append(all, ds...)
			err = errors.Join(err, ferr)
		}
		return all, err
	}
	head := make([]byte, 32)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	n, err := io.ReadFull(f, head)
	f.Close()
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	d := Description{Path: path, Bytes: info.Size()}
	switch start := string(head[:n]); {
	case strings.HasPrefix(start, checkpointMagic):
		err = d.checkpoint()
	case strings.HasPrefix(start, recordingMagic):
		err = d.recording(ctx)
	case strings.HasPrefix(start, predictorMagic):
		err = d.model(weights)
	default:
		return nil, cli.Failf(cli.Data, "%s is not a checkpoint, model or recording of streamsvm", path)
	}
	if err != nil {
		d.Damage = err.Error()
		err = cli.Fail(cli.Data, err)
	}
	return []Description{d}, err
}

func (d *Description) checkpoint() error {
	d.Kind = "checkpoint"
	info, err := checkpoint.Inspect(d.Path)
	if info != nil {
		d.header(&info.Header)
		for _, s := range info.Sections {
			d.Sections = append(d.Sections, section{s.Name, s.Size, describe.Hash(s.Hash), s.OK})
		}
	}
	return err
}

// header sets the fields that come from the header of a checkpoint.
func (d *Description) header(h *checkpoint.Header) {
	d.Format, d.Epoch, d.Seq, d.StreamSVM, d.Learner = h.Format, h.Epoch, h.Seq, h.StreamSVM, h.Learner
	d.Examples, d.ModelVersion, d.StateHash = h.Examples, h.ModelVersion, describe.Hash(h.StateHash)
	if !h.Created.IsZero() {
		d.Created = &h.Created
	}
	for _, kv := range h.Meta {
		if d.Meta == nil {
			d.Meta = map[string]string{}
		}
		d.Meta[kv[0]] = kv[1]
	}
	d.Partitions = describe.Positions(h.Offsets)
}

// describeStates describes the checkpoints in a state topic, the newest of each state first.
// An error about the content of one comes with its description.
func describeStates(topic string, states []statetopic.State) (out []Description, err error) {
	for i := range states {
		err = errors.Join(err, states[i].Err)
		for _, s := range states[i].Snapshots {
			d := Description{Path: s.Path, Kind: "checkpoint"}
			if s.Err != nil {
				d.Damage = s.Err.Error()
				err = errors.Join(err, s.Err)
			} else {
				d.Bytes = s.Bytes
				d.header(&s.Header)
				for _, x := range s.Sections {
					d.Sections = append(d.Sections, section{x.Name, uint64(len(x.Data)), describe.Hash(xxhash.Sum64(x.Data)), true})
				}
			}
			out = append(out, d)
		}
	}
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("topic %s holds no checkpoint", topic)
	}
	if err != nil {
		err = cli.Fail(cli.Data, err)
	}
	return out, err
}

func (d *Description) model(weights int) error {
	d.Kind = "model"
	p, err := describe.ReadModel(d.Path)
	if err != nil {
		return err
	}
	info := p.Info()
	d.modelInfo, d.Features, d.Nonzero = newModelInfo(p), info.Dim, &info.Nonzero
	if info.Support >= 0 {
		d.Support = &info.Support
	}
	if m, ok := p.Model().(*model.Linear); ok {
		bias := m.Bias()
		d.Bias, d.Hashed = &bias, p.HashDim()
		for _, w := range m.Largest(weights) {
			d.Weights = append(d.Weights, weight{w.Index + 1, w.Value})
		}
	}
	return nil
}

func (d *Description) recording(ctx context.Context) error {
	d.Kind = "recording"
	r, err := fileio.OpenRecording(d.Path)
	if err != nil {
		return err
	}
	defer r.Close()
	parts := map[stream.Partition]*partition{}
	var recs []stream.Record
	for err == nil && ctx.Err() == nil {
		recs, err = r.Next(recs[:0])
		for i := range recs {
			id := stream.Partition{Topic: recs[i].Topic, ID: recs[i].Partition}
			p := parts[id]
			if p == nil {
				first := recs[i].Offset
				p = &partition{Topic: id.Topic, Partition: id.ID, First: &first}
				parts[id] = p
			}
			p.Next = recs[i].Offset + 1
			p.Records++
			d.Records++
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(parts), stream.Partition.Compare) {
		d.Partitions = append(d.Partitions, *parts[id])
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	finished, torn := r.Finished(), r.Torn()
	d.Finished, d.Torn = &finished, &torn
	return nil
}

// printAll writes descriptions as YAML, in which lists are shorter than in JSON: one line
// per entry, and for a model topic only the entries that still matter to a subscriber.
func printAll(w io.Writer, ds []Description) error {
	if len(ds) == 0 {
		return nil // an Encoder needs a document
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	for _, d := range ds {
		if d.Topic != nil {
			topic := *d.Topic
			topic.Models = slices.Clone(topic.Models)
			for i := range topic.Models {
				topic.Models[i].Updates = slices.DeleteFunc(slices.Clone(topic.Models[i].Updates), func(u heldUpdate) bool { return u.State == string(modeltopic.StateSuperseded) })
			}
			d.Topic = &topic
		}
		data, err := json.Marshal(d)
		if err != nil {
			return err
		}
		var n yaml.Node
		if err := yaml.Unmarshal(data, &n); err != nil { // JSON is YAML, and a Node keeps the order
			return err
		}
		restyle(&n, false)
		if err := e.Encode(&n); err != nil {
			return err
		}
	}
	return e.Close()
}

// restyle converts the style from JSON to YAML: lists of scalars, and entries of
// lists, take one line. It reports whether the node could be on one line.
func restyle(n *yaml.Node, inList bool) bool {
	list, flat := n.Kind == yaml.SequenceNode, true
	for _, c := range n.Content {
		flat = restyle(c, list) && flat && (!list || c.Kind == yaml.ScalarNode)
	}
	if n.Style = 0; flat && (inList || list) {
		n.Style = yaml.FlowStyle
	}
	return flat
}
