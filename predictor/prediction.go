package predictor

import (
	"math"
	"strconv"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/internal/calibrate"
	"github.com/streamsvm/streamsvm/internal/jsonenc"
	"github.com/streamsvm/streamsvm/stream"
)

// Prediction is the prediction for one record.
type Prediction struct {
	// ID is the identifier in the record, or empty.
	ID string
	// Label is the predicted label as the data spells it: a string, a bool or a
	// float64. For a regression it is the predicted float64.
	Label any
	// Value is the label as [Predictor.Predict] returns it: +1 or −1, the number of
	// the class if there are more than two, or the value of a regression.
	Value float64
	// Score is the decision f(x), see [Predictor.Decision]. With more than two
	// classes it is the score of the predicted one.
	Score float64
	// Probability is the probability of the positive one of two labels, from 0 to 1,
	// or NaN if it is not known; see [Predictor.Probability].
	Probability float64
	// Scores and Probabilities have an element per class, by number, if there are
	// more than two. Probabilities is nil if they are not known.
	Scores, Probabilities []float64
	// Contributions lists the largest contributions of fields, at most
	// Batch.Contributions, and Constant is the prediction with all fields occluded. The
	// list is nil if it was not requested, or the record has more than 4096 features to
	// explain.
	Contributions []Contribution
	Constant      float64

	// Unknown and Missing name the fields of the record that the model does not know,
	// and the fields of the model that the record does not have, if Batch.Fields
	// requests them: up to codec.MaxNames of each.
	Unknown, Missing []string

	// The label in the record, if it has one, as in stream.Example.
	Labelled bool
	Y        float64
	Class    string

	// Model and Version name the model. They are empty and 0 for a model from a
	// file.
	Model   string
	Version uint64
	// Err says why there is no prediction. It is a *stream.FieldError if the record
	// is the cause.
	Err error

	of *records
}

// PassedHeaders are the headers that identify traces and requests. They are copied from
// records to their predictions, which also have JSONHeader.
var PassedHeaders = []string{"traceparent", "tracestate", "baggage", "correlation-id", "x-request-id"}

// JSONHeader says that the value of a record is JSON.
var JSONHeader = stream.Header{Key: "content-type", Value: []byte("application/json")}

// Labels names the labels of predictions that were made elsewhere, such as a trainer's.
type Labels struct {
	of *records
	// Costs, if not nil, choose the labels by probabilities; see [Predictor.Costs].
	Costs []float64
}

// NewLabels returns the Labels of a task. list is as in codec.Signature.Labels; classes
// is the number of classes, which matters if there are more than two.
func NewLabels(task algos.Task, list string, classes int) (*Labels, error) {
	r := &records{}
	if err := r.name(task, classes, list); err != nil {
		return nil, &RecordsError{err}
	}
	return &Labels{of: r}, nil
}

// Set sets the predicted fields of p. decision is f(x) or, if scores is not nil, the
// number of the predicted class of more than two.
func (l *Labels) Set(p *Prediction, decision, probability float64, scores, probabilities []float64) {
	p.of, p.Score, p.Probability, p.Scores, p.Probabilities = l.of, decision, probability, scores, probabilities
	switch costs := calibrate.Costs(l.Costs); {
	case costs == nil:
	case probabilities != nil:
		decision = float64(costs.Best(probabilities))
	case probability == probability && costs.Positive(probability):
		decision = 1
	case probability == probability:
		decision = -1
	}
	if scores != nil {
		p.Score = scores[int(decision)]
	}
	l.of.label(p, decision)
}

// label sets the predicted label from f(x), or the number of the predicted class of more
// than two.
func (r *records) label(p *Prediction, decision float64) {
	switch {
	case r.labels == nil:
		p.Value, p.Label = decision, decision
		return
	case p.Scores != nil:
		p.Value = decision
	case decision >= 0:
		p.Value = 1
	default:
		p.Value = -1
	}
	p.Label = r.labels[r.index(p.Value)]
}

// AppendText appends the label as text.
func (p *Prediction) AppendText(b []byte) []byte {
	if p.of == nil || p.of.texts == nil {
		return strconv.AppendFloat(b, p.Value, 'g', -1, 64)
	}
	return append(b, p.of.texts[p.of.index(p.Value)]...)
}

// MarshalJSON returns the prediction as the command predict prints it.
func (p Prediction) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil, nil), nil }

// AppendJSON appends the prediction as the command predict prints it: an object, with
// the topic, partition and offset of at if that is not nil.
func (p *Prediction) AppendJSON(b []byte, at *stream.Record) []byte {
	b = append(b, '{')
	text := func(key, s string) {
		if s != "" {
			b = jsonenc.AppendString(jsonenc.AppendKey(b, key), s)
		}
	}
	text("id", p.ID)
	if at != nil {
		text("topic", at.Topic)
		b = strconv.AppendInt(jsonenc.AppendKey(b, "partition"), int64(at.Partition), 10)
		b = strconv.AppendInt(jsonenc.AppendKey(b, "offset"), at.Offset, 10)
	}
	if p.Err == nil {
		b = p.AppendFields(b)
		if p.Labelled && p.Class != "" {
			text("y", p.Class)
		} else if p.Labelled {
			b = p.appendLabel(jsonenc.AppendKey(b, "y"), p.Y)
		}
	}
	text("model", p.Model)
	if p.Version != 0 {
		b = strconv.AppendUint(jsonenc.AppendKey(b, "version"), p.Version, 10)
	}
	if p.Err != nil {
		text("error", p.Err.Error())
	}
	return append(b, '}')
}

// AppendFields appends the predicted fields of AppendJSON, from decision on, to an
// object that has been begun.
func (p *Prediction) AppendFields(b []byte) []byte {
	b = jsonenc.AppendNumber(jsonenc.AppendKey(b, "decision"), p.Score)
	if p.of != nil && len(p.of.labels) == 2 {
		b = jsonenc.AppendNumber(jsonenc.AppendKey(b, "probability"), p.Probability)
	}
	b = p.appendLabel(jsonenc.AppendKey(b, "label"), p.Value)
	if p.Scores != nil {
		b = p.appendScores(jsonenc.AppendKey(b, "scores"), p.Scores)
		b = p.appendScores(jsonenc.AppendKey(b, "probabilities"), p.Probabilities)
	}
	if p.Contributions != nil {
		b = p.appendContributions(jsonenc.AppendKey(b, "contributions"))
	}
	return appendNames(appendNames(b, "unknown", p.Unknown), "missing", p.Missing)
}

// appendNames appends a field with a list, unless the list is empty.
func appendNames(b []byte, key string, names []string) []byte {
	if len(names) == 0 {
		return b
	}
	b = append(jsonenc.AppendKey(b, key), '[')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonenc.AppendString(b, name)
	}
	return append(b, ']')
}

func (p *Prediction) appendLabel(b []byte, y float64) []byte {
	if p.of == nil || p.of.labels == nil {
		return jsonenc.AppendNumber(b, y)
	}
	return append(b, p.of.inJSON[p.of.index(y)]...)
}

// appendScores appends an object with the scores or probabilities of the classes by
// name, or null if they are not known.
func (p *Prediction) appendScores(b []byte, scores []float64) []byte {
	if scores == nil {
		return append(b, "null"...)
	}
	b = append(b, '{')
	for k, v := range scores {
		if k > 0 {
			b = append(b, ',')
		}
		b = append(jsonenc.AppendString(b, p.of.texts[k]), ':')
		b = jsonenc.AppendNumber(b, v)
	}
	return append(b, '}')
}

// appendContributions appends an array of contributions and a field with the constant
// term.
func (p *Prediction) appendContributions(b []byte) []byte {
	b = append(b, '[')
	for i, c := range p.Contributions {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonenc.AppendString(append(b, `{"feature":`...), c.Feature)
		b = append(jsonenc.AppendNumber(append(b, `,"value":`...), c.Value), '}')
	}
	b = append(b, ']')
	return jsonenc.AppendNumber(jsonenc.AppendKey(b, "constant"), p.Constant)
}

// unknown stands for a probability that is not known.
var unknown = math.NaN()
