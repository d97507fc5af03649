package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/streamsvm/streamsvm/contrib/oip"
	"github.com/streamsvm/streamsvm/internal/app/admit"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/describe"
	"github.com/streamsvm/streamsvm/internal/app/metrics"
	"github.com/streamsvm/streamsvm/internal/version"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
)

// newService serves the model of a file as version 7 of tx.
func newService(t *testing.T, model string, maxRows int) *httptest.Server {
	srv, _ := newBoundService(t, model, maxRows, admit.Options{})
	return srv
}

// newBoundService is newService with other limits.
func newBoundService(t *testing.T, model string, maxRows int, o admit.Options) (*httptest.Server, *admit.Limits) {
	t.Helper()
	m, err := describe.ReadModel(model)
	if err != nil {
		t.Fatal(err)
	}
	v := &predictor.Version{Predictor: m, Update: stream.Update{Model: "tx", Version: 7}}
	reg := metrics.NewRegistry(version.String)
	p := &predict{
		c: &cli.Call{}, codecFlags: codecFlags{labels: "auto", comma: ","}, maxBody: 1 << 20, maxRows: maxRows,
		m: metrics.NewPredictor(reg), current: func() *predictor.Version { return v },
	}
	s := newServer(reg)
	s.bound(o)
	p.ready, p.limits = &s.ready, s.limits
	s.ready.Store(true)
	for pattern, h := range p.routes() {
		s.mux.Handle(pattern, h)
	}
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = s.limits.Server(s.mux)
	srv.Start()
	t.Cleanup(srv.Close)
	return srv, s.limits
}

func post(t *testing.T, url, body string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// TestServe asks in all forms, many at a time, and compares the answers: those of
// one request must not depend on the others.
func TestServe(t *testing.T) {
	srv := newService(t, transactions(t), 5)
	infer := "/v2/models/tx/infer"
	binary := `{"inputs":[{"name":"amount","shape":[2],"datatype":"FP64","parameters":{"binary_data_size":16}}]}`
	cases := []struct {
		path, body string
		header     []string
		code       int
		want       string // in the answer
	}{
		{"/predict", `[{"amount":3,"country":"DE"},{"amount":"x"},{"amount":4,"id":"b"}]`, nil, 200, `},{"index":1,"error":"feature, amount: the text \"x\", where the schema has numeric"},{"id":"b","decision":`},
		{"/predict", `[{"amount":"x"}]`, nil, 400, `{"error":"example 1: feature, amount`},
		{"/predict", "[{},{},{},{},{},{}]", nil, 413, "6, the limit is 5"},
		{"/predict", "{\"amount\":3}\n\n{\"amount\":\"x\"}\n{", []string{"Content-Type", "application/x-ndjson"}, 200, `"model":"tx","version":7}` + "\n" + `{"model":"tx","version":7,"error":"feature, amount`},
		{"/predict", "{}", []string{"Content-Encoding", "gzip"}, 415, `{"error":"the request is compressed with \"gzip\"`},
		{"/predict", `{}`, nil, 200, `,"missing":["amount","country","customer.vip"]}]}`},
		{"/predict", `{"foo":1,"amount":3,"country":null,"customer":{"vip":true,"name":"é"}}`, nil, 200, `,"unknown":["foo","customer.name"]}]}`},
		{"/predict", `{"id":"a","amount":3,"country":"DE","customer.vip":true,"fraud":true}`, nil, 200, `,"label":`},
		{"/predict?strict", `{"amount":3,"country":null,"customer":{"vip":true}}`, nil, 200, `"decision":`},
		{"/predict?strict=1", `{"id":"a","Amount":3}`, nil, 400, `example 1: feature: unknown fields: Amount; missing fields: amount, country, customer.vip`},
		{"/predict?strict=1", `[{"amount":3,"country":"DE","customer":{"vip":true}},{"amount":3,"country":"DE"}]`, nil, 200, `{"index":1,"error":"feature: missing fields: customer.vip"}]}`},
		{"/predict?strict", "{\"amount\":3}", []string{"Content-Type", "application/x-ndjson"}, 200, `"error":"feature: missing fields: country, customer.vip"}`},
		{"/predict?strict=0", `{"foo":1}`, nil, 200, `"unknown":["foo"],"missing":["amount",`},
		{infer, `{"id":"q","inputs":[{"name":"amount","shape":[3,1],"datatype":"FP64","data":[[3],[null],["x"]]},{"name":"country","shape":[3],"datatype":"BYTES","data":["DE","Čad \"q\"",null]}]}`, nil, 200,
			`"id":"q","outputs":[{"name":"label","shape":[3],"datatype":"BYTES","data":["`},
		{infer, `{"inputs":[{"name":"amount","shape":[2],"datatype":"FP64","data":[3,"x"]}]}`, nil, 200, `{"name":"error","shape":[2],"datatype":"BYTES","data":[null,"feature, amount: the text`},
		{infer, `{"inputs":[{"name":"amount","shape":[2],"datatype":"FP64","data":[3,4]}],"outputs":[{"name":"decision"}]}`, nil, 200, `{"model_name":"tx","model_version":"7","outputs":[{"name":"decision","shape":[2],"datatype":"FP64","data":[`},
		{infer, binary, []string{"Inference-Header-Content-Length", fmt.Sprint(len(binary))}, 415, "binary tensors are not supported"},
		{infer, binary, nil, 400, "binary tensors are not supported"},
		{infer, `{"inputs":[{"name":"amount","shape":[2],"datatype":"FP64"}]}`, nil, 400, "it has no data"},
		{"/v2/models/tx/versions/7/infer", `{"inputs":[{"name":"amount","shape":[1],"datatype":"FP64","data":[3]}]}`, nil, 200, `"model_version":"7"`},
		{"/v2/models/tx/versions/6/infer", `{}`, nil, 404, `{"error":"version \"6\" of tx is not loaded, but 7"}`},
		{"/v2/models/other/infer", `{}`, nil, 404, `{"error":"there is no model \"other\", but \"tx\""}`},
		{"/v2/nothing", `{}`, nil, 404, `{"error":"there is no POST /v2/nothing"}`},
		{infer, `{}`, nil, 400, "the request has no inputs"},
		{infer, `{"inputs":[{"name":"amount","shape":[6],"datatype":"FP64","data":[1,2,3,4,5,6]}]}`, nil, 413, "6, the limit is 5"},
		{infer, `{"inputs":[{"name":"amount","shape":[2],"datatype":"FP64","data":[1]}]}`, nil, 400, "fewer values than its shape"},
		{infer, `{"inputs":[{"name":"amount","shape":[1],"datatype":"FP64","data":[1,2]}]}`, nil, 400, "more values than its shape"},
		{infer, `{"inputs":[{"name":"amount","shape":[9223372036854775807,2147483647],"datatype":"FP64","data":[1]}]}`, nil, 400, "want one value in a row"},
		{infer, `{"inputs":[{"name":"a","shape":[1],"datatype":"FP64","data":[1]}]}`, nil, 400, "the model does not have it: it has amount, country, customer.vip"},
		{infer, `{"inputs":[{"name":"amount","shape":[1],"datatype":"FP16","data":[1]}]}`, nil, 400, `the datatype is \"FP16\"`},
		{infer, `{"inputs":[{"name":"amount","shape":[1],"datatype":"FP64","data":[1]},{"name":"amount","shape":[1],"datatype":"FP64","data":[1]}]}`, nil, 400, "comes twice"},
	}
	answers := make([]string, len(cases))
	table := bytes.NewBufferString("| request | body | status | error |\n| --- | --- | --- | --- |\n")
	for i, c := range cases {
		code, got := post(t, srv.URL+c.path, c.body, c.header...)
		answers[i] = got
		if code != c.code || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: status %d, want %d: %s\nwant %s", c.path, c.body, code, c.code, got, c.want)
		}
		if code == 200 {
			continue
		}
		var said struct{ Error string }
		if err := json.Unmarshal([]byte(got), &said); err != nil || said.Error == "" {
			t.Errorf("%s: the error %s: %v", c.body, got, err)
		}
		for i := 0; i < len(c.header); i += 2 {
			c.path += "<br>" + c.header[i] + ": " + c.header[i+1]
		}
		fmt.Fprintf(table, "| POST %s | %s | %d | %s |\n", c.path, shown(c.body), code, said.Error)
	}
	compareTable(t, "../../docs/failures.md", "requests", table.String())
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 3 * len(cases) {
				k := (i*(2*g+1) + g) % len(cases)
				if _, got := post(t, srv.URL+cases[k].path, cases[k].body, cases[k].header...); got != answers[k] {
					t.Errorf("%s %s: %s in company, %s alone", cases[k].path, cases[k].body, got, answers[k])
				}
			}
		})
	}
	all.Wait()
	for path, want := range map[string]string{
		"/predict?strict=yes": `strict is \"yes\", want 1 or 0`, infer + "?strict": "example 1: feature: missing fields: country, customer.vip",
	} {
		if code, got := post(t, srv.URL+path, `{"inputs":[{"name":"amount","shape":[2],"datatype":"FP64","data":[3,4]}]}`); code != 400 || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s, want %s", path, code, got, want)
		}
	}
	for path, want := range map[string]string{
		"/v2": `"extensions":[]`, "/v2/health/ready": `{"ready":true}`, "/v2/models/tx/versions/7": `"versions":["7"]`,
		"/v2/models/tx": `{"name":"customer.vip","shape":[-1],"datatype":"BOOL"}`, "/v2/models/tx/ready": `{"name":"tx","ready":true}`,
		"/status.json": `"model":{"name":"tx","version":7,`, "/openapi.json": `"customer.vip": {`,
	} {
		w := httptest.NewRecorder()
		srv.Config.Handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", path, w.Code, w.Body, want)
		}
	}
}

// TestOpenAPI: the file has all that predict answers, and nothing else.
func TestOpenAPI(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	text, err := oip.OpenAPI(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	want := []string{"GET /metrics", "GET /healthz", "GET /readyz", "GET /version"} // of newServer
	for pattern := range new(predict).routes() {
		if strings.Contains(pattern, " ") {
			want = append(want, pattern)
		}
	}
	var got []string
	s := newServer(metrics.NewRegistry(version.String))
	for path, methods := range doc.Paths {
		for method := range methods {
			got = append(got, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("openapi.json has %q, predict answers %q", got, want)
	}
	for _, pattern := range []string{"/metrics", "/healthz", "/readyz", "/version"} {
		if _, p := s.mux.Handler(httptest.NewRequest("GET", pattern, nil)); p != "GET "+pattern {
			t.Errorf("%s is answered by %q", pattern, p)
		}
	}
}
