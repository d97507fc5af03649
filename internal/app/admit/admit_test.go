package admit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// service is a server whose handler reads a body, holds it until it is told to go
// on, and answers with its length.
type service struct {
	*httptest.Server
	l    *Limits
	hold chan struct{} // a request goes on when it receives
	mu   sync.Mutex
	why  map[string]int // refusals
}

func serve(t *testing.T, o Options) *service {
	s := &service{hold: make(chan struct{}), why: map[string]int{}}
	o.Rejected = func(reason string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.why[reason]++
	}
	s.l = New(o)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		refuse := func(err error) {
			code := http.StatusBadRequest
			if limit, ok := errors.AsType[*Error](err); ok {
				code = limit.Code
			}
			w.Header().Set("Connection", "close")
			http.Error(w, err.Error(), code)
		}
		q, err := s.l.Begin(w, r)
		if err != nil {
			refuse(err)
			return
		}
		defer q.End()
		b, err := q.ReadBody(nil, 1<<20, 0)
		if err != nil {
			refuse(err)
			return
		}
		if r.URL.Path == "/hold" {
			<-s.hold
		}
		fmt.Fprint(w, len(b))
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.Handle("GET /page", s.l.Page(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-s.hold })))
	s.Server = httptest.NewUnstartedServer(nil)
	s.Config = s.l.Server(mux)
	s.Start()
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(s.hold) })
	return s
}

// begin sends the beginning of a request.
func (s *service) begin(t *testing.T, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

func post(path string, length int, part string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, length, part)
}

func answer(t *testing.T, c net.Conn) (code int, text string, h http.Header) {
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
	return resp.StatusCode, string(b), resp.Header
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in a minute: %s", what)
		}
	}
}

func (s *service) refused(reason string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why[reason]
}

func (s *service) healthy(t *testing.T) {
	t.Helper()
	if code, text, _ := answer(t, s.begin(t, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")); code != 200 || text != "ok" {
		t.Errorf("/healthz: %d %q", code, text)
	}
}

// TestBody: what becomes of bodies, and that nothing is held afterwards.
func TestBody(t *testing.T) {
	s := serve(t, Options{Bytes: 512 << 10, Stall: 300 * time.Millisecond, Wait: time.Millisecond})
	text := strings.Repeat("x", 1<<20+1)
	chunked := func(n int) string {
		return fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", n, text[:n])
	}
	for _, c := range []struct {
		name, request string
		code          int
		want          string
		reason        string
	}{
		{"empty", post("/", 0, ""), 200, "0", ""},
		{"small", post("/", 10, text[:10]), 200, "10", ""},
		{"large", post("/", 300_000, text[:300_000]), 200, "300000", ""},
		{"chunked", chunked(200_000), 200, "200000", ""},
		{"announced as too large", post("/", 1<<20+1, ""), 413, "more than 1048576 bytes", "size"},
		{"more than all requests may hold", post("/", 700_000, text[:700_000]), 413, "more than the 524288", "size"},
		{"the same, chunked", chunked(700_000), 413, "more than the 524288", "size"},
		{"nothing comes", post("/", 10, ""), 408, "too slowly", "slow"},
		{"a part comes", post("/", 300_000, text[:100_000]), 408, "too slowly", "slow"},
	} {
		before := s.refused(c.reason)
		code, got, _ := answer(t, s.begin(t, c.request))
		if code != c.code || !strings.Contains(strings.ReplaceAll(got, "take more", "more"), c.want) {
			t.Errorf("%s: %d %q, want %d %q", c.name, code, got, c.code, c.want)
		}
		if c.reason != "" && s.refused(c.reason) != before+1 {
			t.Errorf("%s: not counted as %s", c.name, c.reason)
		}
		eventually(t, c.name+": the bytes come back", func() bool { return s.l.Held() == 0 })
	}
	c := s.begin(t, post("/", 300_000, text[:100_000]))
	eventually(t, "bytes are held", func() bool { return s.l.Held() > 0 })
	c.Close()
	eventually(t, "they come back when the client goes", func() bool { return s.l.Held() == 0 })
	if n := s.l.requests.Load(); n != 0 {
		t.Errorf("%d requests are under way at the end", n)
	}
}

// TestSteady: a body that goes on coming is not too slow, however many times 64 KiB
// it has.
func TestSteady(t *testing.T) {
	s := serve(t, Options{Stall: 5 * time.Second})
	const part = 16 << 10
	c := s.begin(t, post("/", 20*part, ""))
	for range 20 {
		time.Sleep(time.Millisecond)
		if _, err := io.WriteString(c, strings.Repeat("x", part)); err != nil {
			t.Fatal(err)
		}
	}
	if code, got, _ := answer(t, c); code != 200 || got != fmt.Sprint(20*part) {
		t.Errorf("%d %s", code, got)
	}
}

// TestArrived: what is announced but has not come is not held.
func TestArrived(t *testing.T) {
	s := serve(t, Options{Bytes: 1 << 20})
	for range 20 {
		s.begin(t, post("/", 1<<20, strings.Repeat("x", 20<<10)))
	}
	eventually(t, "all are admitted", func() bool { return s.l.requests.Load() == 20 })
	if code, got, _ := answer(t, s.begin(t, post("/", 900_000, strings.Repeat("x", 900_000)))); code != 200 {
		t.Errorf("a large request: %d %s", code, got)
	}
}

// TestBytes: those that hold nothing yet are refused at once when there is nothing
// left, small ones are not, and one that has begun waits for what others give back.
func TestBytes(t *testing.T) {
	s := serve(t, Options{Bytes: 220 << 10, Wait: time.Minute})
	first := s.begin(t, post("/hold", 100_000, strings.Repeat("x", 100_000)))
	eventually(t, "the first holds its bytes", func() bool { return s.l.Held() >= 100_000-Free })
	waiting := s.begin(t, post("/", 200_000, strings.Repeat("x", 200_000)))
	eventually(t, "the second holds some", func() bool { return s.l.Held() > 150_000 })
	var fill []net.Conn
	eventually(t, "there is nothing left", func() bool {
		c := s.begin(t, post("/", 200_000, strings.Repeat("x", 66_000)))
		fill = append(fill, c)
		return s.refused("bytes") > 0
	})
	code, _, h := answer(t, fill[len(fill)-1])
	if code != 503 {
		t.Errorf("a request too many: %d %v", code, h)
	}
	if code, got, _ := answer(t, s.begin(t, post("/", 1000, strings.Repeat("x", 1000)))); code != 200 {
		t.Errorf("a small request: %d %s", code, got)
	}
	s.healthy(t)
	for _, c := range fill {
		c.Close()
	}
	s.hold <- struct{}{}
	for _, c := range []net.Conn{first, waiting} {
		if code, got, _ := answer(t, c); code != 200 {
			t.Errorf("%d %s", code, got)
		}
	}
	eventually(t, "all bytes come back", func() bool { return s.l.Held() == 0 })
}

// TestRequests: of requests and pages there are only so many at a time; health is
// none of them.
func TestRequests(t *testing.T) {
	s := serve(t, Options{Requests: 2, Pages: 1})
	for range 2 {
		s.begin(t, post("/hold", 1, "x"))
	}
	eventually(t, "two requests are under way", func() bool { return s.l.requests.Load() == 2 })
	if code, got, _ := answer(t, s.begin(t, post("/", 100, ""))); code != 503 { // without its body
		t.Errorf("the third: %d %s", code, got)
	}
	page := "GET /page HTTP/1.1\r\nHost: x\r\n\r\n"
	s.begin(t, page)
	eventually(t, "a page is being sent", func() bool { return !s.l.pages.TryAcquire(1) || func() bool { s.l.pages.Release(1); return false }() })
	if code, got, h := answer(t, s.begin(t, page)); code != 503 || h.Get("Retry-After") != "1" {
		t.Errorf("another page: %d %s %v", code, got, h)
	}
	s.healthy(t)
	if n := s.refused("requests"); n != 2 {
		t.Errorf("%d are counted", n)
	}
	for range 3 {
		s.hold <- struct{}{}
	}
	eventually(t, "the requests are over", func() bool { return s.l.requests.Load() == 0 })
	if code, got, _ := answer(t, s.begin(t, post("/", 1, "x"))); code != 200 {
		t.Errorf("afterwards: %d %s", code, got)
	}
}

// TestConns: the connection that is one too many is closed at once, and others are
// taken again when there are fewer.
func TestConns(t *testing.T) {
	s := serve(t, Options{Conns: 2})
	a, b := s.begin(t, ""), s.begin(t, "")
	eventually(t, "there are two", func() bool { return s.l.conns.Load() == 2 })
	code, _, h := answer(t, s.begin(t, ""))
	if code != 503 || h.Get("Retry-After") != "1" {
		t.Errorf("the third: %d %v", code, h)
	}
	if n := s.refused("connections"); n != 1 {
		t.Errorf("%d are counted", n)
	}
	a.Close()
	b.Close()
	eventually(t, "they are gone", func() bool { return s.l.conns.Load() == 0 })
	s.healthy(t)
}

// TestHeaders: large headers, and those that do not come, do not take memory and
// connections for long.
func TestHeaders(t *testing.T) {
	s := serve(t, Options{Stall: 200 * time.Millisecond})
	if code, _, _ := answer(t, s.begin(t, "GET /healthz HTTP/1.1\r\nHost: x\r\nA: "+strings.Repeat("x", 32<<10)+"\r\n\r\n")); code != 431 {
		t.Errorf("large headers: %d", code)
	}
	s.begin(t, "GET /healthz HTTP/1.1\r\nHost:")
	eventually(t, "the connection is closed", func() bool { return s.l.conns.Load() == 0 })
}
