package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/stream"
)

// answer is what POST /predict returns: a prediction for each example, in
// order, all of one version of the model.
type answer struct {
	Model       string   `json:"model,omitempty"`
	Version     uint64   `json:"version,omitempty"`
	Predictions []scored `json:"predictions"`
}

type scored struct {
	ID       string       `json:"id,omitempty"`
	Decision *eval.Number `json:"decision"`
	Label    *eval.Number `json:"label"`
}

// ServeHTTP answers POST /predict. The body is an example in the codec of the
// command line, or several: a JSON array of them, or lines of text.
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
	values, err := p.split(body)
	if err != nil {
		fail(http.StatusBadRequest, err)
		return
	}
	b := newScoring()
	b.v = p.current()
	for _, v := range values {
		b.recs = append(b.recs, stream.Record{Value: v})
	}
	p.score(b)
	a := answer{Model: b.v.Update.Model, Version: b.v.Update.Version, Predictions: make([]scored, len(b.rows))}
	for i, o := range b.rows {
		if o.err != nil {
			fail(http.StatusBadRequest, fmt.Errorf("example %d: %w", i+1, o.err))
			return
		}
		d, l := eval.Number(o.decision), eval.Number(o.label)
		a.Predictions[i] = scored{o.id, &d, &l}
	}
	_ = json.NewEncoder(w).Encode(a)
}

// split takes a request apart into examples.
func (p *predict) split(body []byte) ([][]byte, error) {
	if p.dec.Name() == "msgpack" {
		return [][]byte{body}, nil
	}
	if body = bytes.TrimSpace(body); len(body) == 0 {
		return nil, errors.New("the request is empty")
	}
	if p.dec.Name() == "json" {
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
	return values, nil
}
