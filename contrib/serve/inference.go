package serve

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/streamsvm/streamsvm/contrib/oip"
	"github.com/streamsvm/streamsvm/internal/app/admit"
	"github.com/streamsvm/streamsvm/internal/app/serve"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/predictor"
)

// inference returns the routes of the Open Inference Protocol.
func (p *service) inference() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /openapi.json": p.openAPI,
		"GET /v2": func(w http.ResponseWriter, _ *http.Request) {
			serve.AnswerJSON(w, map[string]any{"name": "streamsvm", "version": version.String, "extensions": []string{}})
		},
		"GET /v2/health/live": func(w http.ResponseWriter, _ *http.Request) { serve.AnswerJSON(w, map[string]bool{"live": true}) },
		"GET /v2/health/ready": func(w http.ResponseWriter, _ *http.Request) {
			if !p.Ready.Load() {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			serve.AnswerJSON(w, map[string]bool{"ready": p.Ready.Load()})
		},
		"GET /v2/models/{model}":                           p.modelMetadata,
		"GET /v2/models/{model}/versions/{version}":        p.modelMetadata,
		"GET /v2/models/{model}/ready":                     p.modelReady,
		"GET /v2/models/{model}/versions/{version}/ready":  p.modelReady,
		"POST /v2/models/{model}/infer":                    p.infer,
		"POST /v2/models/{model}/versions/{version}/infer": p.infer,
		"/v2/": func(w http.ResponseWriter, r *http.Request) {
			serve.Refuse(w, http.StatusNotFound, fmt.Errorf("there is no %s %s", r.Method, r.URL.Path))
		},
	}
}

// tensors are a request of the Open Inference Protocol.
type tensors struct {
	oip.Infer
	model oip.Model
}

// Clear forgets the request but keeps memory.
func (t *tensors) Clear() {
	t.Infer.Clear()
	t.model = oip.Model{}
}

// describe describes the model of s, by default the one in use.
func (p *service) describe(m *oip.Model, s *predictor.Scorer) (err error) {
	if s == nil {
		if s, err = p.Pin(); err != nil {
			return err
		}
	}
	in, err := s.Inputs()
	if err != nil {
		return err
	}
	v := s.Current()
	*m = oip.Model{Name: p.Name(v), Learner: v.Learner(), Labels: s.Labels(), LabelValues: s.LabelValues(), Inputs: in}
	if v.Update.Version != 0 {
		m.Version = strconv.FormatUint(v.Update.Version, 10)
	}
	return nil
}

// inUse reports whether a request is about the model and version in use. If not, it
// has answered.
func (p *service) inUse(w http.ResponseWriter, r *http.Request, m *oip.Model) bool {
	name, number := r.PathValue("model"), r.PathValue("version")
	switch {
	case name != m.Name:
		serve.Refuse(w, http.StatusNotFound, fmt.Errorf("there is no model %q, but %q", name, m.Name))
	case number != "" && m.Version == "":
		serve.Refuse(w, http.StatusNotFound, fmt.Errorf("there is no version %q of %s, which comes from a file and has none", number, m.Name))
	case number != "" && number != m.Version:
		serve.Refuse(w, http.StatusNotFound, fmt.Errorf("version %q of %s is not loaded, but %s", number, m.Name, m.Version))
	default:
		return true
	}
	return false
}

// describeFor describes the model in use, if the request is about it. If not, it
// has answered.
func (p *service) describeFor(w http.ResponseWriter, r *http.Request, m *oip.Model) bool {
	if !p.Ready.Load() {
		serve.Refuse(w, http.StatusServiceUnavailable, serve.ErrNotReady)
		return false
	}
	if err := p.describe(m, nil); err != nil {
		serve.Refuse(w, http.StatusInternalServerError, err)
		return false
	}
	return p.inUse(w, r, m)
}

// openAPI describes all routes, for the model in use if there is one.
func (p *service) openAPI(w http.ResponseWriter, _ *http.Request) {
	var m *oip.Model
	var err error
	if p.Ready.Load() {
		m = new(oip.Model)
		err = p.describe(m, nil)
	}
	doc, bad := oip.OpenAPI(m)
	if err = errors.Join(err, bad); err != nil {
		serve.Refuse(w, http.StatusInternalServerError, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(doc)
}

func (p *service) modelMetadata(w http.ResponseWriter, r *http.Request) {
	var m oip.Model
	if p.describeFor(w, r, &m) {
		serve.AnswerJSON(w, m.Metadata())
	}
}

func (p *service) modelReady(w http.ResponseWriter, r *http.Request) {
	var m oip.Model
	if p.describeFor(w, r, &m) {
		serve.AnswerJSON(w, map[string]any{"name": m.Name, "ready": true})
	}
}

// infer answers a request of the Open Inference Protocol.
func (p *service) infer(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Inference-Header-Content-Length") != "" {
		serve.RefuseUnread(w, http.StatusUnsupportedMediaType, errors.New("binary tensors are not supported: send values in JSON, with tritonclient by binary_data=False"))
		return
	}
	q := p.begin(w, r, true)
	if q == nil {
		return
	}
	defer q.end()
	t, ok := q.tensors.(*tensors)
	if !ok {
		t = new(tensors)
		q.tensors = t
	}
	q.inJSON, q.explain = true, 0
	if q.fields == predictor.ReportFields {
		q.fields = predictor.IgnoreFields // the protocol has no place for reports
	}
	if err := p.describe(&t.model, q.pinned); err != nil {
		serve.Refuse(w, http.StatusInternalServerError, err)
		return
	}
	if !p.inUse(w, r, &t.model) {
		return
	}
	if err := t.Read(&t.model, q.body, p.mostRows()); err != nil {
		unreadable(w, err)
		return
	}
	if cap(q.body) > admit.Free {
		q.body = nil // Read has made a copy
	}
	// Each of up to three outputs takes about 24 bytes a row, for each class if there
	// are more than two. They are kept until all are known, then copied into the
	// response.
	err := q.reserve(2 * 24 * 3 * t.Len() * max(1, len(t.model.Labels)-1))
	if err != nil {
		q.failed(err, false)
		return
	}
	if !q.some(p, t.Batches(&t.model), func() error { t.Add(&t.model, q.Predictions); return nil }) {
		return
	}
	if err := q.Hold(max(q.will, cap(q.body)+q.size()+q.memory())); err != nil {
		q.failed(err, false)
		return
	}
	q.out = t.Append(q.out[:0], &t.model)
	q.send("application/json")
}
