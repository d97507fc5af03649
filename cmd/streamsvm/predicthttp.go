package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/streamsvm/streamsvm/internal/app/serve"
	"github.com/streamsvm/streamsvm/internal/jsonenc"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// defaultMaxRows is the default of --max-rows.
const defaultMaxRows = 100_000

// routes are what predict answers besides what every server does;
// internal/app/serve/openapi.json describes them.
func (p *predict) routes() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"POST /predict":     p.ServeHTTP,
		"POST /invocations": p.invocations,
		"GET /ping": func(w http.ResponseWriter, _ *http.Request) {
			if !p.ready.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		},
		"GET /status.json": p.statusJSON,
		"GET /openapi.json": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(serve.OpenAPI)
		},

		// The Open Inference Protocol.
		"GET /v2": func(w http.ResponseWriter, _ *http.Request) {
			answerJSON(w, map[string]any{"name": "streamsvm", "version": version.String, "extensions": []string{"binary_tensor_data"}})
		},
		"GET /v2/health/live": func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, map[string]bool{"live": true}) },
		"GET /v2/health/ready": func(w http.ResponseWriter, _ *http.Request) {
			if !p.ready.Load() {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			answerJSON(w, map[string]bool{"ready": p.ready.Load()})
		},
		"GET /v2/models/{model}":                           p.modelMetadata,
		"GET /v2/models/{model}/versions/{version}":        p.modelMetadata,
		"GET /v2/models/{model}/ready":                     p.modelReady,
		"GET /v2/models/{model}/versions/{version}/ready":  p.modelReady,
		"POST /v2/models/{model}/infer":                    p.infer,
		"POST /v2/models/{model}/versions/{version}/infer": p.infer,
		"/v2/": func(w http.ResponseWriter, r *http.Request) {
			refuse(w, http.StatusNotFound, fmt.Errorf("there is no %s %s", r.Method, r.URL.Path))
		},
	}
}

// answerJSON answers with v, which has a form in JSON.
func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}

var errNotReady = errors.New("there is no model yet, or the service is stopping")

// A request is one that asks for predictions, with all the memory that this
// takes, to be used again.
type request struct {
	*scoring
	body   bytes.Buffer
	infer  serve.Infer
	call   serve.Invocation
	model  serve.Model
	answer []serve.Prediction
}

var requests = sync.Pool{New: func() any { return &request{scoring: newScoring()} }}

// done gives the memory back, unless it is more than most requests need.
func (q *request) done() {
	q.Clear()
	clear(q.answer)
	q.s, q.model = nil, serve.Model{}
	if q.body.Cap() <= 1<<20 && cap(q.out) <= 1<<20 && !q.Batch.Large() && !q.infer.Large() && !q.call.Large() {
		requests.Put(q)
	}
}

// begin reads a request. Without one it has answered.
func (p *predict) begin(w http.ResponseWriter, r *http.Request) *request {
	if !p.ready.Load() {
		refuse(w, http.StatusServiceUnavailable, errNotReady)
		return nil
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		refuse(w, http.StatusUnsupportedMediaType, fmt.Errorf("the request is compressed with %q: send it as it is", e))
		return nil
	}
	q := requests.Get().(*request)
	q.body.Reset()
	if n := r.ContentLength; n > 0 && n <= p.maxBody {
		q.body.Grow(int(n) + bytes.MinRead)
	}
	if _, err := q.body.ReadFrom(http.MaxBytesReader(w, r.Body, p.maxBody)); err != nil {
		q.done()
		code := http.StatusBadRequest
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			code = http.StatusRequestEntityTooLarge
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			code = http.StatusRequestTimeout
		}
		refuse(w, code, err)
		return nil
	}
	var err error
	q.JSON = false
	if q.s, err = p.pin(nil); err != nil {
		q.done()
		refuse(w, http.StatusInternalServerError, err)
		return nil
	}
	return q
}

// all scores the rows of the request.
func (q *request) all(p *predict, r *http.Request, values [][]byte) {
	q.Records = q.Records[:0]
	for _, v := range values {
		q.Records = append(q.Records, stream.Record{Value: v})
	}
	p.score(r.Context(), q.scoring)
}

// some is all, but answers if no row can be scored.
func (q *request) some(p *predict, w http.ResponseWriter, r *http.Request, values [][]byte) bool {
	q.all(p, r, values)
	rows := q.Predictions
	if len(rows) == 0 || slices.ContainsFunc(rows, func(o predictor.Prediction) bool { return o.Err == nil }) {
		return true
	}
	err := fmt.Errorf("example 1: %w", rows[0].Err)
	if n := len(rows); n > 1 {
		err = fmt.Errorf("none of %d examples can be scored; %w", n, err)
	}
	refuse(w, http.StatusBadRequest, err)
	return false
}

// unreadable answers that a request cannot be read.
func unreadable(w http.ResponseWriter, err error) {
	code := http.StatusBadRequest
	if errors.Is(err, serve.ErrTooMany) {
		code = http.StatusRequestEntityTooLarge
	}
	refuse(w, code, err)
}

func (p *predict) mostRows() int { return cmp.Or(p.maxRows, defaultMaxRows) }

// ServeHTTP answers POST /predict. The body is an example in the codec of the
// command line, or several: a JSON array of them, or lines of text. Examples
// that cannot be scored are errors of their own, unless none can. Of JSON lines,
// each has a line of the answer, as on standard output.
func (p *predict) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := p.begin(w, r)
	if q == nil {
		return
	}
	defer q.done()
	lines := jsonLines(r.Header.Get("Content-Type"))
	var values [][]byte
	var err error
	if lines {
		q.JSON = true
		for line := range bytes.Lines(q.body.Bytes()) {
			if line = bytes.TrimSpace(line); len(line) > 0 {
				values = append(values, line)
			}
		}
	} else {
		values, err = q.split(q.body.Bytes())
	}
	if err == nil && len(values) > p.mostRows() {
		err = fmt.Errorf("%w: %d, the limit is %d", serve.ErrTooMany, len(values), p.mostRows())
	}
	if err != nil {
		unreadable(w, err)
		return
	}
	if lines {
		q.all(p, r, values)
		q.out = q.out[:0]
		for i := range q.Predictions {
			q.out = append(q.Predictions[i].AppendJSON(q.out, nil), '\n')
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = w.Write(q.out)
		return
	}
	if q.some(p, w, r, values) {
		q.out = appendAnswer(q.out[:0], q.s.Current(), q.Predictions)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(q.out)
	}
}

// jsonLines reports whether a content type says that each line is a JSON text.
func jsonLines(contentType string) bool {
	return strings.HasPrefix(contentType, "application/x-ndjson") || strings.HasPrefix(contentType, "application/jsonl") || strings.HasPrefix(contentType, "application/ndjson")
}

// appendAnswer appends what POST /predict answers: a prediction for each example,
// in order, all of one version of the model; where there is none, the number of
// the example, from 0, and the reason.
func appendAnswer(b []byte, v *predictor.Version, rows []predictor.Prediction) []byte {
	b = append(b, '{')
	if name := v.Update.Model; name != "" {
		b = serve.AppendString(jsonenc.AppendKey(b, "model"), name)
	}
	if n := v.Update.Version; n != 0 {
		b = strconv.AppendUint(jsonenc.AppendKey(b, "version"), n, 10)
	}
	b = append(jsonenc.AppendKey(b, "predictions"), '[')
	for i := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		o := &rows[i]
		b = append(b, '{')
		if o.ID != "" {
			b = serve.AppendString(jsonenc.AppendKey(b, "id"), o.ID)
		}
		if o.Err != nil {
			b = strconv.AppendInt(jsonenc.AppendKey(b, "index"), int64(i), 10)
			b = serve.AppendString(jsonenc.AppendKey(b, "error"), o.Err.Error())
		} else {
			b = o.AppendFields(b)
		}
		b = append(b, '}')
	}
	return append(b, "]}\n"...)
}

// split takes a request apart into examples. The first line of csv may name the
// columns, if those of the model have names.
func (q *request) split(body []byte) ([][]byte, error) {
	name := q.s.Codec().Name()
	if name == "msgpack" || codec.Schematic(name) && (len(body) == 0 || body[0] != '{' && body[0] != '[') {
		return [][]byte{body}, nil
	}
	if body = bytes.TrimSpace(body); len(body) == 0 {
		return nil, errors.New("the request is empty")
	}
	if q.s.TakesJSON() && (body[0] == '{' || body[0] == '[') {
		name = "json"
	}
	var values [][]byte
	if name == "json" {
		if body[0] != '[' {
			return [][]byte{body}, nil
		}
		if !json.Valid(body) {
			var all json.RawMessage
			return nil, json.Unmarshal(body, &all)
		}
		return values, serve.Items(body, func(item []byte) error { values = append(values, item); return nil })
	}
	for line := range bytes.Lines(body) {
		values = append(values, bytes.TrimRight(line, "\r\n"))
	}
	if name == "csv" && q.names(values[0]) {
		h, err := parseHeader(values[0], codec.SignatureOf(q.s.Codec()).CSV.Comma)
		if err == nil {
			q.s, err = q.s.WithColumns(h.names).Pin()
		}
		return values[1:], err
	}
	return values, nil
}

// names reports whether the line holds the name of a feature of the model, as no
// record does.
func (q *request) names(line []byte) bool {
	sig := q.s.Current().Signature()
	features := sig.Features()
	if features == nil {
		return false
	}
	names, err := codec.ParseHeader(line, codec.SignatureOf(q.s.Codec()).CSV.Comma)
	return err == nil && slices.ContainsFunc(names, func(name string) bool {
		_, number := strconv.ParseFloat(name, 64)
		return number != nil && slices.Contains(features, name)
	})
}

// modelInputs are the inputs of a version.
type modelInputs struct {
	v *predictor.Version
	*serve.Inputs
}

// inputs returns the inputs of the version to which s is pinned.
func (p *predict) inputs(s *predictor.Scorer) (*serve.Inputs, error) {
	v := s.Current()
	if last := p.taken.Load(); last != nil && last.v == v {
		return last.Inputs, nil
	}
	in, err := serve.NewInputs(v.Signature())
	if err == nil {
		p.taken.Store(&modelInputs{v, in})
	}
	return in, err
}

// modelName is what the model is called that is in use: in a file without a
// name, as the file is.
func (p *predict) modelName(v *predictor.Version) string {
	if v.Update.Model != "" {
		return v.Update.Model
	}
	name := filepath.Base(p.modelFile)
	return strings.TrimSuffix(name, filepath.Ext(name))
}

// describe makes m the model in use.
func (p *predict) describe(m *serve.Model, s *predictor.Scorer) error {
	in, err := p.inputs(s)
	if err != nil {
		return err
	}
	v := s.Current()
	*m = serve.Model{Name: p.modelName(v), Learner: v.Learner(), Labels: s.Labels(), Inputs: in}
	if v.Update.Version != 0 {
		m.Version = strconv.FormatUint(v.Update.Version, 10)
	}
	return nil
}

// asked finds out whether the model, and the version, of a request is the one in
// use, and answers if not.
func (p *predict) asked(w http.ResponseWriter, r *http.Request, m *serve.Model) bool {
	name, number := r.PathValue("model"), r.PathValue("version")
	switch {
	case name != m.Name:
		refuse(w, http.StatusNotFound, fmt.Errorf("there is no model %q, but %q", name, m.Name))
	case number != "" && m.Version == "":
		refuse(w, http.StatusNotFound, fmt.Errorf("there is no version %q of %s, which comes from a file and has none", number, m.Name))
	case number != "" && number != m.Version:
		refuse(w, http.StatusNotFound, fmt.Errorf("version %q of %s is not loaded, but %s", number, m.Name, m.Version))
	default:
		return true
	}
	return false
}

// describeFor describes the model in use where a request is about it. If not, it
// has answered.
func (p *predict) describeFor(w http.ResponseWriter, r *http.Request, m *serve.Model) bool {
	if !p.ready.Load() {
		refuse(w, http.StatusServiceUnavailable, errNotReady)
		return false
	}
	s, err := p.pin(nil)
	if err == nil {
		err = p.describe(m, s)
	}
	if err != nil {
		refuse(w, http.StatusInternalServerError, err)
		return false
	}
	return p.asked(w, r, m)
}

func (p *predict) modelMetadata(w http.ResponseWriter, r *http.Request) {
	var m serve.Model
	if p.describeFor(w, r, &m) {
		answerJSON(w, m.Metadata())
	}
}

func (p *predict) modelReady(w http.ResponseWriter, r *http.Request) {
	var m serve.Model
	if p.describeFor(w, r, &m) {
		answerJSON(w, map[string]any{"name": m.Name, "ready": true})
	}
}

// beginRows is begin for requests with rows in JSON.
func (p *predict) beginRows(w http.ResponseWriter, r *http.Request) *request {
	q := p.begin(w, r)
	if q == nil {
		return nil
	}
	q.JSON = true
	if err := p.describe(&q.model, q.s); err != nil {
		q.done()
		refuse(w, http.StatusInternalServerError, err)
		return nil
	}
	return q
}

// predictions returns what the protocols of others need of the rows.
func (q *request) predictions() []serve.Prediction {
	q.answer = q.answer[:0]
	for i := range q.Predictions {
		o := &q.Predictions[i]
		a := serve.Prediction{Err: o.Err, Decision: o.Score, Probability: o.Probability, Scores: o.Scores, Probabilities: o.Probabilities}
		if o.Err == nil {
			a.Label, a.JSON = o.Text()
		}
		q.answer = append(q.answer, a)
	}
	return q.answer
}

// infer answers a request of the Open Inference Protocol.
func (p *predict) infer(w http.ResponseWriter, r *http.Request) {
	q := p.beginRows(w, r)
	if q == nil {
		return
	}
	defer q.done()
	if !p.asked(w, r, &q.model) {
		return
	}
	header := -1
	if text := r.Header.Get(serve.BinaryHeader); text != "" {
		var err error
		if header, err = strconv.Atoi(text); err != nil || header < 0 {
			unreadable(w, fmt.Errorf("the header %s is %q, want a number of bytes", serve.BinaryHeader, text))
			return
		}
	}
	if err := q.infer.Read(&q.model, q.body.Bytes(), header, p.mostRows()); err != nil {
		unreadable(w, err)
		return
	}
	if !q.some(p, w, r, q.infer.Values) {
		return
	}
	q.out, header = q.infer.Append(q.out[:0], &q.model, q.predictions())
	if header < 0 {
		w.Header().Set("Content-Type", "application/json")
	} else {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set(serve.BinaryHeader, strconv.Itoa(header))
	}
	_, _ = w.Write(q.out)
}

// invocations answers a request as MLflow's servers do.
func (p *predict) invocations(w http.ResponseWriter, r *http.Request) {
	if t := r.Header.Get("Content-Type"); strings.HasPrefix(t, "text/csv") {
		refuse(w, http.StatusUnsupportedMediaType, errors.New("only application/json is understood here: post CSV to /predict"))
		return
	}
	q := p.beginRows(w, r)
	if q == nil {
		return
	}
	defer q.done()
	if err := q.call.Read(&q.model, q.body.Bytes(), p.mostRows()); err != nil {
		unreadable(w, err)
		return
	}
	if q.some(p, w, r, q.call.Values) {
		q.out = q.call.Append(q.out[:0], &q.model, q.predictions())
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(q.out)
	}
}
