package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/admit"
)

// send sends a part of a request of so many bytes over a connection of its own.
func send(t *testing.T, url, path string, length int, part string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, length, part); err != nil {
		t.Fatal(err)
	}
	return c
}

// answer reads an answer.
func readAnswer(t *testing.T, c net.Conn) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// eventually waits until what is said holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in a minute: %s", what)
		}
	}
}

// TestExhausted: while clients hold all bytes there are, large requests are told
// to come later, small ones are answered, and so are health and metrics. When the
// clients go, large requests are answered.
func TestExhausted(t *testing.T) {
	const size = 256 << 10
	srv, limits := newBoundService(t, transactions(t), 100_000, admit.Options{Bytes: size, Wait: time.Millisecond, Stall: time.Hour, Body: time.Hour})
	var holding []net.Conn
	for range 24 { // each would take 64 KiB, or less in memory left by earlier requests
		holding = append(holding, send(t, srv.URL, "/predict", 60<<10, strings.Repeat(" ", 59<<10)))
	}
	eventually(t, "they hold nearly all", func() bool { return limits.Held() > size-64<<10 })
	large := "[" + strings.TrimSuffix(strings.Repeat(`{"amount":3},`, 9000), ",") + "]"
	eventually(t, "a large request is refused", func() bool {
		r, err := http.Post(srv.URL+"/predict", "", strings.NewReader(large))
		if err != nil {
			return false // refused while it was sent
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		if r.StatusCode == 200 {
			return false
		}
		if r.StatusCode != 503 || r.Header.Get("Retry-After") != "1" || !strings.Contains(string(b), "hold too many bytes") {
			t.Fatalf("status %d, Retry-After %q: %s", r.StatusCode, r.Header.Get("Retry-After"), b)
		}
		return true
	})
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ready", "/v2/health/ready": "true", "/metrics": `streamsvm_http_rejected_total{reason="bytes"} `,
	} {
		resp, err := http.Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 || !strings.Contains(string(b), want) {
			t.Errorf("%s: status %d: %s", path, resp.StatusCode, b)
		}
	}
	small := "[" + strings.TrimSuffix(strings.Repeat(`{"amount":3},`, 100), ",") + "]"
	for range 10 {
		if code, got := post(t, srv.URL+"/predict", small); code != 200 {
			t.Fatalf("a small request: status %d: %s", code, got)
		}
	}
	for _, c := range holding {
		c.Close()
	}
	eventually(t, "all bytes come back", func() bool { return limits.Held() == 0 })
	if code, got := post(t, srv.URL+"/predict", large); code != 200 {
		t.Errorf("afterwards: status %d: %s", code, got)
	}
	eventually(t, "all bytes come back", func() bool { return limits.Held() == 0 })
}

// TestHeldBack: bytes come back, and so do the scorers, however a request ends.
func TestHeldBack(t *testing.T) {
	srv, limits := newBoundService(t, transactions(t), 2000, admit.Options{Bytes: 1 << 20, Stall: 200 * time.Millisecond, Wait: time.Millisecond})
	rows := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(`{"amount":3,"country":"a longer text"},`, n), ",") + "]"
	}
	infer := "/v2/models/tx/infer"
	for range 3 { // more often than there are scorers, together
		for _, c := range []struct {
			path, body string
			length     int // as announced
			code       int
			want       string
		}{
			{"/predict", rows(1900), 0, 200, `"predictions":[{"decision"`},
			{"/predict", rows(2001), 0, 413, "2001, the limit is 2000"},
			{"/predict", rows(1900) + "x", 0, 400, "invalid character"},
			{"/predict", "[" + strings.Repeat(`{"amount":"x"},`, 1999) + "{]", 0, 400, "invalid character"},
			{"/predict", "[" + strings.Repeat(`{"amount":"x"},`, 1999) + `{"amount":"x"}]`, 0, 400, "none of 2000"},
			{"/predict", rows(1900), 1 << 20, 408, "arrived too slowly"},
			{"/predict", rows(1), 2 << 20, 413, "more than 1048576 bytes"},
			{infer, `{"inputs":[{"name":"amount","shape":[1900],"datatype":"FP64","data":[1` + strings.Repeat(",1", 1899) + `]}]}`, 0, 200, `"outputs":[`},
			{infer, rows(1900), 0, 400, "not an object"},
			{infer, `{"inputs":[` + strings.Repeat("{},", 70_000) + `{}]}`, 0, 400, "more than 65536"},
			{infer, strings.Repeat(" ", 600<<10) + "{}", 0, 413, "take more than the 1048576 bytes"}, // with its copy
			{"/v2/models/other/infer", rows(1900), 0, 404, "no model"},
		} {
			if c.length == 0 {
				c.length = len(c.body)
			}
			resp, got := readAnswer(t, send(t, srv.URL, c.path, c.length, c.body))
			if resp.StatusCode != c.code || !strings.Contains(got, c.want) {
				t.Errorf("%s, %d bytes: status %d, want %d: %.200s", c.path, c.length, resp.StatusCode, c.code, got)
			}
			eventually(t, fmt.Sprintf("the bytes of %s, %d come back", c.path, c.code), func() bool { return limits.Held() == 0 })
		}
		c := send(t, srv.URL, "/predict", 1<<20, rows(1900))
		eventually(t, "a client holds bytes", func() bool { return limits.Held() > 0 })
		c.Close()
		eventually(t, "they come back when it goes", func() bool { return limits.Held() == 0 })
	}
}

// TestUnreadAnswer: a client that does not read its answer does not keep what it
// holds.
func TestUnreadAnswer(t *testing.T) {
	srv, limits := newBoundService(t, transactions(t), 1_000_000, admit.Options{Stall: 200 * time.Millisecond})
	c, err := net.Dial("tcp", strings.TrimPrefix(srv.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetReadBuffer(128 << 10)
	body := "[" + strings.TrimSuffix(strings.Repeat("{},", 200_000), ",") + "]" // answered with 20 MB
	if _, err := fmt.Fprintf(c, "POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the client is given up", func() bool {
		var b strings.Builder
		resp, err := http.Get(srv.URL + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(&b, resp.Body)
		return strings.Contains(b.String(), `streamsvm_http_rejected_total{reason="slow"} 1`)
	})
	eventually(t, "its bytes come back", func() bool { return limits.Held() == 0 })
	// Half an answer does not look like a whole one.
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n, err := io.Copy(io.Discard, resp.Body); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an answer is cut off after %d bytes, and the client sees %v", n, err)
	}
}

// TestBatches: a request of several batches is answered as its rows are alone, in
// all forms.
func TestBatches(t *testing.T) {
	srv := newService(t, transactions(t), 10_000)
	const n = 1500
	bad := map[int]bool{700: true, 1499: true}
	value := func(i int) string {
		if bad[i] {
			return `"x"`
		}
		return fmt.Sprint(i % 50)
	}
	country := []string{"DE", "FR", "BR"}
	type prediction struct {
		Decision, Probability *float64
		Label                 any
		Error                 string
		Index                 int
	}
	var alone [n]prediction
	known := map[string]prediction{}
	var objects, amounts, countries []string
	for i := range n {
		object := fmt.Sprintf(`{"amount":%s,"country":%q}`, value(i), country[i%3])
		if _, ok := known[object]; !ok && !bad[i] {
			code, got := post(t, srv.URL+"/predict", object)
			var a struct{ Predictions []prediction }
			if err := json.Unmarshal([]byte(got), &a); err != nil || code != 200 {
				t.Fatalf("%d: %s", code, got)
			}
			known[object] = a.Predictions[0]
		}
		alone[i] = known[object]
		objects = append(objects, object)
		amounts, countries = append(amounts, value(i)), append(countries, fmt.Sprintf("%q", country[i%3]))
	}
	join := func(list []string) string { return strings.Join(list, ",") }
	ask := func(path, body string, into any, header ...string) {
		t.Helper()
		code, got := post(t, srv.URL+path, body, header...)
		if err := json.Unmarshal([]byte(got), into); err != nil || code != 200 {
			t.Fatalf("%s: %d, %v: %.200s", path, code, err, got)
		}
	}
	check := func(form string, i int, decision *float64, failed bool) {
		t.Helper()
		if failed != bad[i] || !bad[i] && (decision == nil || *decision != *alone[i].Decision) {
			t.Errorf("%s: row %d differs from what it is alone", form, i)
		}
	}

	var own struct{ Predictions []prediction }
	ask("/predict", "["+join(objects)+"]", &own)
	for i, p := range own.Predictions {
		check("/predict", i, p.Decision, p.Error != "")
		if bad[i] && p.Index != i {
			t.Errorf("/predict: row %d is called %d", i, p.Index)
		}
	}
	var lines []prediction
	_, got := post(t, srv.URL+"/predict", strings.Join(objects, "\n"), "Content-Type", "application/x-ndjson")
	for d := json.NewDecoder(strings.NewReader(got)); d.More(); {
		var p prediction
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		check("JSON lines", len(lines), p.Decision, p.Error != "")
		lines = append(lines, p)
	}

	var v2 struct {
		Outputs []struct {
			Name  string
			Shape []int
			Data  []any
		}
	}
	ask("/v2/models/tx/infer", fmt.Sprintf(`{"inputs":[{"name":"amount","shape":[%d],"datatype":"FP64","data":[%s]},{"name":"country","shape":[%[1]d],"datatype":"BYTES","data":[%[3]s]}]}`, n, join(amounts), join(countries)), &v2)
	outputs := map[string][]any{}
	for _, o := range v2.Outputs {
		outputs[o.Name] = o.Data
		if len(o.Data) != n || o.Shape[0] != n {
			t.Errorf("/v2: output %s has %d values, shape %v", o.Name, len(o.Data), o.Shape)
		}
	}
	for i := range outputs["decision"] {
		var d *float64
		if v, ok := outputs["decision"][i].(float64); ok {
			d = &v
		}
		check("/v2", i, d, outputs["error"][i] != nil)
	}
	if len(own.Predictions) != n || len(lines) != n || len(outputs["decision"]) != n {
		t.Errorf("%d, %d and %d predictions", len(own.Predictions), len(lines), len(outputs["decision"]))
	}
}
