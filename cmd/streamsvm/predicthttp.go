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
	clear(q.recs[:cap(q.recs)])
	clear(q.rows[:cap(q.rows)])
	clear(q.answer)
	q.v, q.form, q.model = nil, nil, serve.Model{}
	if q.body.Cap() <= 1<<20 && cap(q.out) <= 1<<20 && len(q.xs) <= 4096 && !q.infer.Large() && !q.call.Large() {
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
	q.v = p.current()
	if q.form, err = p.form(q.v, nil); err != nil {
		q.done()
		refuse(w, http.StatusInternalServerError, err)
		return nil
	}
	return q
}

// all scores the rows of the request.
func (q *request) all(p *predict, r *http.Request, values [][]byte) {
	q.recs = q.recs[:0]
	for _, v := range values {
		q.recs = append(q.recs, stream.Record{Value: v})
	}
	p.score(r.Context(), q.scoring)
}

// some is all, but answers if no row can be scored.
func (q *request) some(p *predict, w http.ResponseWriter, r *http.Request, values [][]byte) bool {
	q.all(p, r, values)
	if len(q.rows) == 0 || slices.ContainsFunc(q.rows, func(o outcome) bool { return o.err == nil }) {
		return true
	}
	err := fmt.Errorf("example 1: %w", q.rows[0].err)
	if n := len(q.rows); n > 1 {
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
		var t *rowForm
		if t, err = q.form.rowForm(); err == nil {
			q.form = t.form
			for line := range bytes.Lines(q.body.Bytes()) {
				if line = bytes.TrimSpace(line); len(line) > 0 {
					values = append(values, line)
				}
			}
		}
	} else {
		values, err = p.split(q.scoring, q.body.Bytes())
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
		for i := range q.rows {
			q.out = append(q.rows[i].append(q.out, q.form, q.v, nil), '\n')
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = w.Write(q.out)
		return
	}
	if q.some(p, w, r, values) {
		q.out = appendAnswer(q.out[:0], q.scoring)
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
func appendAnswer(b []byte, s *scoring) []byte {
	b = append(b, '{')
	if name := s.v.Update.Model; name != "" {
		b = serve.AppendString(appendKey(b, "model"), name)
	}
	if n := s.v.Update.Version; n != 0 {
		b = strconv.AppendUint(appendKey(b, "version"), n, 10)
	}
	b = append(appendKey(b, "predictions"), '[')
	for i := range s.rows {
		if i > 0 {
			b = append(b, ',')
		}
		o := &s.rows[i]
		b = append(b, '{')
		if o.id != "" {
			b = serve.AppendString(appendKey(b, "id"), o.id)
		}
		if o.err != nil {
			b = strconv.AppendInt(appendKey(b, "index"), int64(i), 10)
			b = serve.AppendString(appendKey(b, "error"), o.err.Error())
		} else {
			b = o.appendPrediction(b, s.form)
		}
		b = append(b, '}')
	}
	return append(b, "]}\n"...)
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
	if name == "csv" && b.form.names(values[0]) {
		h, err := parseHeader(values[0], codec.SignatureOf(b.form.dec).CSV.Comma)
		if err == nil {
			b.form, err = p.form(b.v, h)
		}
		return values[1:], err
	}
	return values, nil
}

// A rowForm is what requests need that have rows in JSON.
type rowForm struct {
	inputs *serve.Inputs
	form   *form
}

// newRowForm returns the rowForm of a form.
func newRowForm(f *form) (*rowForm, error) {
	in, err := serve.NewInputs(f.sig)
	if err != nil {
		return nil, err
	}
	g := *f
	g.json = nil
	if f.json != nil {
		g.dec = f.json
	} else if f.dec.Name() != "json" {
		g.dec, err = codec.New("json", codec.Options{Task: f.opts.Task, Labels: f.opts.Labels, MaxFeatures: f.opts.MaxFeatures, Schema: f.opts.Schema})
	}
	return &rowForm{in, &g}, err
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
func (p *predict) describe(m *serve.Model, v *predictor.Version, f *form) error {
	t, err := f.rowForm()
	if err != nil {
		return err
	}
	*m = serve.Model{Name: p.modelName(v), Learner: v.Learner(), Labels: f.texts, Inputs: t.inputs}
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
	v := p.current()
	f, err := p.form(v, nil)
	if err == nil {
		err = p.describe(m, v, f)
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
	err := p.describe(&q.model, q.v, q.form)
	if err != nil {
		q.done()
		refuse(w, http.StatusInternalServerError, err)
		return nil
	}
	t, _ := q.form.rowForm()
	q.form = t.form
	return q
}

// predictions returns what the protocols of others need of the rows.
func (q *request) predictions() []serve.Prediction {
	q.answer = q.answer[:0]
	for i := range q.rows {
		o := &q.rows[i]
		a := serve.Prediction{Err: o.err, Decision: o.decision, Probability: o.probability, Scores: o.scores, Probabilities: o.probabilities}
		switch {
		case o.err != nil:
		case q.form.labels == nil:
			a.JSON = string(serve.AppendNumber(nil, o.label))
		default:
			k := q.form.index(o.label)
			a.Label, a.JSON = q.form.texts[k], q.form.labels[k]
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
