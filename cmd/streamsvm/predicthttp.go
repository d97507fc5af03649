package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// answer is what POST /predict returns: a prediction for each example, in
// order, all of one version of the model.
type answer struct {
	Model       string   `json:"model,omitempty"`
	Version     uint64   `json:"version,omitempty"`
	Predictions []scored `json:"predictions"`
}

// scored is a prediction, or the reason why there is none.
type scored struct {
	ID            string          `json:"id,omitempty"`
	Decision      *eval.Number    `json:"decision,omitempty"`
	Probability   json.RawMessage `json:"probability,omitempty"` // null where it is not known; not of a regression
	Label         json.RawMessage `json:"label,omitempty"`
	Scores        json.RawMessage `json:"scores,omitempty"`        // of more than two classes
	Probabilities json.RawMessage `json:"probabilities,omitempty"` // of these; null where they are not known
	Index         *int            `json:"index,omitempty"`         // with an error: which example, from 0
	Error         string          `json:"error,omitempty"`
}

// ServeHTTP answers POST /predict. The body is an example in the codec of the
// command line, or several: a JSON array of them, or lines of text. Examples
// that cannot be scored are errors of their own, unless none can.
func (p *predict) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fail := func(code int, err error) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
	}
	if !p.ready.Load() {
		fail(http.StatusServiceUnavailable, errors.New("there is no model yet, or the service is stopping"))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, p.maxBody))
	if err != nil {
		code := http.StatusBadRequest
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			code = http.StatusRequestEntityTooLarge
		}
		fail(code, err)
		return
	}
	b := newScoring()
	b.v = p.current()
	if b.form, err = p.form(b.v, nil); err != nil {
		fail(http.StatusInternalServerError, err)
		return
	}
	values, err := p.split(b, body)
	if err != nil {
		fail(http.StatusBadRequest, err)
		return
	}
	for _, v := range values {
		b.recs = append(b.recs, stream.Record{Value: v})
	}
	p.score(r.Context(), b)
	if len(b.rows) > 0 && !slices.ContainsFunc(b.rows, func(o outcome) bool { return o.err == nil }) {
		err := fmt.Errorf("example 1: %w", b.rows[0].err)
		if n := len(b.rows); n > 1 {
			err = fmt.Errorf("none of %d examples can be scored; %w", n, err)
		}
		fail(http.StatusBadRequest, err)
		return
	}
	a := answer{Model: b.v.Update.Model, Version: b.v.Update.Version, Predictions: make([]scored, len(b.rows))}
	for i, o := range b.rows {
		if o.err != nil {
			a.Predictions[i] = scored{ID: o.id, Index: &i, Error: o.err.Error()}
			continue
		}
		d := eval.Number(o.decision)
		a.Predictions[i] = scored{ID: o.id, Decision: &d, Label: b.form.appendLabel(nil, o.label)}
		if o.scores != nil {
			a.Predictions[i].Scores = b.form.appendScores(nil, o.scores)
			a.Predictions[i].Probabilities = b.form.appendProbabilities(nil, o.probabilities)
		}
		if len(b.form.labels) == 2 {
			a.Predictions[i].Probability = appendNumber(nil, o.probability)
		}
	}
	_ = json.NewEncoder(w).Encode(a)
}

// split takes a request apart into examples. The first line of csv may name the
// columns, if those of the model have names: then it sets the form of b.
func (p *predict) split(b *scoring, body []byte) ([][]byte, error) {
	name := b.form.dec.Name()
	if name == "msgpack" || codec.Schematic(name) && (len(body) == 0 || body[0] != '{' && body[0] != '[') {
		return [][]byte{body}, nil
	}
	if body = bytes.TrimSpace(body); len(body) == 0 {
		return nil, errors.New("the request is empty")
	}
	if b.form.json != nil && (body[0] == '{' || body[0] == '[') {
		name = "json"
	}
	if name == "json" {
		if body[0] != '[' {
			return [][]byte{body}, nil
		}
		var raw []json.RawMessage
		if err := json.Unmarshal(body, &raw); err != nil {
			return nil, err
		}
		values := make([][]byte, len(raw))
		for i := range raw {
			values[i] = raw[i]
		}
		return values, nil
	}
	var values [][]byte
	for line := range bytes.Lines(body) {
		values = append(values, bytes.TrimRight(line, "\r\n"))
	}
	if name == "csv" && b.form.names(values[0]) {
		h, err := parseHeader(values[0], codec.SignatureOf(b.form.dec).CSV.Comma)
		if err == nil {
			b.form, err = p.form(b.v, h)
		}
		return values[1:], err
	}
	return values, nil
}
