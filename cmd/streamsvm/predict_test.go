package main

import (
	"encoding/json"

	"github.com/streamsvm/streamsvm/internal/eval"
)

// prediction is one line of output, for encoding/json.
type prediction struct {
	ID        string       `json:"id,omitempty"`
	Topic     string       `json:"topic,omitempty"`
	Partition *int32       `json:"partition,omitempty"`
	Offset    *int64       `json:"offset,omitempty"`
	Decision  *eval.Number `json:"decision,omitempty"`
	Label     *eval.Number `json:"label,omitempty"`
	Y         *float64     `json:"y,omitempty"`
	Model     string       `json:"model,omitempty"`
	Version   uint64       `json:"version,omitempty"`
	Error     string       `json:"error,omitempty"`
}

// answer is what POST /predict returns, for encoding/json.
type answer struct {
	Model       string   `json:"model,omitempty"`
	Version     uint64   `json:"version,omitempty"`
	Predictions []scored `json:"predictions"`
}

// scored is a prediction, or the reason why there is none.
type scored struct {
	ID            string          `json:"id,omitempty"`
	Decision      *eval.Number    `json:"decision,omitempty"`
	Probability   json.RawMessage `json:"probability,omitempty"`
	Label         json.RawMessage `json:"label,omitempty"`
	Scores        json.RawMessage `json:"scores,omitempty"`
	Probabilities json.RawMessage `json:"probabilities,omitempty"`
	Index         *int            `json:"index,omitempty"`
	Error         string          `json:"error,omitempty"`
}
