package main

import (
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/contrib"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/internal/app/serve"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// predictStatus is the answer to GET /status.json.
type predictStatus struct {
	Command string    `json:"command"`
	Program string    `json:"version"`
	Started time.Time `json:"started"`
	Ready   bool      `json:"ready"`
	// Model is the model in use; nil before there is one.
	Model       *modelStatus `json:"model"`
	Predictions uint64       `json:"predictions"`
	Refused     uint64       `json:"refused"`
	Tombstones  uint64       `json:"tombstones_skipped"`
	// Topics is nil if no topic is scored.
	Topics []describe.Partition `json:"topics,omitempty"`
	// Fields are the fields of the events.
	Events uint64        `json:"events,omitempty"`
	Fields []fieldStatus `json:"fields,omitempty"`
}

type modelStatus struct {
	Name          string                 `json:"name"`
	Version       uint64                 `json:"version,omitempty"`
	Epoch         uint64                 `json:"epoch,omitempty"`
	Step          uint64                 `json:"step,omitempty"`
	Examples      uint64                 `json:"examples,omitempty"`
	Created       *time.Time             `json:"created,omitempty"`
	Learner       string                 `json:"learner"`
	Task          string                 `json:"task"`
	Model         string                 `json:"model"`
	Labels        []string               `json:"labels,omitempty"`
	Preprocessing string                 `json:"preprocessing"`
	Options       map[string]string      `json:"options"`
	Evaluation    map[string]eval.Number `json:"evaluation,omitempty"`
}

type fieldStatus struct {
	Name    string      `json:"name"`
	Type    string      `json:"type"`
	Missing uint64      `json:"missing"`
	Unknown uint64      `json:"unknown"`
	Invalid uint64      `json:"invalid"`
	Outside uint64      `json:"out_of_range"`
	PSI     eval.Number `json:"psi"`
}

// serves makes p show the requests that a service has answered.
func (p *progress) serves(s *predict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unit, p.phase = "requests", ""
	p.look = func() {
		bad := s.counts.refused.Load()
		p.records.Store(s.counts.requests.Load())
		p.version.Store(s.current().Update.Version)
		p.facts = []any{"rows", s.counts.predictions.Load() + bad, "errors", bad}
	}
}

// statusJSON answers GET /status.json.
func (p *predict) statusJSON(w http.ResponseWriter, _ *http.Request) {
	s := predictStatus{
		Command: "predict", Program: version.String, Started: p.started.UTC(), Ready: p.ready.Load(),
		Predictions: p.counts.predictions.Load(), Refused: p.counts.refused.Load(), Tombstones: p.counts.skipped.Load(),
	}
	if at := p.at.Load(); at != nil {
		s.Topics = describe.Positions(*at)
	}
	if last := p.last.Load(); s.Ready && last != nil {
		v := p.current()
		m := &modelStatus{
			Name: p.modelName(v), Version: v.Update.Version, Epoch: v.Update.Epoch, Step: v.Update.Step, Examples: v.Update.Examples,
			Learner: v.Learner(), Task: string(v.Task()), Model: v.Info().Text, Labels: last.Labels(), Preprocessing: v.Preprocessing(), Options: v.Options(),
			Evaluation: describe.Measures(v.Update.Evaluation),
		}
		if t := v.Update.Created; !t.IsZero() {
			t = t.UTC()
			m.Created = &t
		}
		s.Model = m
		var fields []codec.FieldCount
		fields, s.Events, _ = codec.FieldCounts(last.Codec())
		for _, f := range fields {
			s.Fields = append(s.Fields, fieldStatus{f.Name, string(f.Type), f.Missing, f.Unknown, f.Invalid, f.Outside, eval.Number(f.PSI)})
		}
	}
	serve.AnswerJSON(w, s)
}

// routes returns the routes that predict adds to the ones of every server.
func (p *predict) routes() map[string]http.HandlerFunc {
	routes := map[string]http.HandlerFunc{"GET /status.json": p.statusJSON}
	if contrib.Serve != nil {
		maps.Copy(routes, contrib.Serve(&contrib.Predictions{
			Ready: p.ready, Limits: p.limits, MaxBody: p.maxBody, MaxRows: p.maxRows, Requests: &p.counts.requests, Name: p.modelName,
			Pin:   func() (*predictor.Scorer, error) { return p.pin(nil) },
			Score: p.scoreBatch,
		}))
	}
	return routes
}

// modelName returns the name of the model in use. A model without a name gets its
// file's.
func (p *predict) modelName(v *predictor.Version) string {
	if v.Update.Model != "" {
		return v.Update.Model
	}
	name := filepath.Base(p.modelFile)
	return strings.TrimSuffix(name, filepath.Ext(name))
}
