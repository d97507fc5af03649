// Package admit protects an HTTP server against overload: it bounds the bytes of
// requests and responses in memory, the concurrent requests and connections, and
// the time that each may take.
//
// Bytes are reserved as they arrive, not as announced, so that a client that sends
// slowly holds little. Health checks and metrics need none of these resources, so
// they are answered even when everything is used up.
package admit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// DefaultBytes is the default of Options.Bytes.
const DefaultBytes = 64 << 20

// Free is the number of bytes per request that do not count towards Bytes; the
// limit on requests bounds them. So a small request is answered even while large
// ones use up the limit.
const Free = 32 << 10

// piece is the number of bytes that must be transferred within Options.Stall.
const piece = 64 << 10

// Options are the limits; 0 stands for the default.
type Options struct {
	// Bytes bounds the bytes of requests and responses in memory; default
	// DefaultBytes.
	Bytes int64
	// Requests bounds the concurrent requests admitted by Begin; default 2048.
	Requests int64
	// Pages bounds the concurrent requests wrapped by Page; default 32.
	Pages int64
	// Conns bounds the connections; default 4096.
	Conns int64
	// Wait is how long a request that already holds bytes waits for more before it
	// is refused; default 1 s.
	Wait time.Duration
	// Stall is the longest time for 64 KiB of a body or a response; default 10 s.
	Stall time.Duration
	// Body is the longest time for a body; default 1 min. A response may take twice
	// that.
	Body time.Duration
	// Rejected, if not nil, is called when a request or a connection is refused,
	// with one of Reasons.
	Rejected func(reason string)
}

// Reasons lists why requests and connections are refused.
func Reasons() []string { return []string{"busy", "bytes", "connections", "requests", "size", "slow"} }

// An Error says why a request was refused.
type Error struct {
	Code   int    // HTTP status: 408, 413 or 503
	Reason string // one of Reasons
	Text   string
}

func (e *Error) Error() string { return e.Text }

// Limits are the limits of one server.
type Limits struct {
	o     Options
	bytes *semaphore.Weighted
	pages *semaphore.Weighted

	held, requests, conns atomic.Int64
}

// New returns limits.
func New(o Options) *Limits {
	def := func(p *int64, v int64) {
		if *p == 0 {
			*p = v
		}
	}
	def(&o.Bytes, DefaultBytes)
	def(&o.Requests, 2048)
	def(&o.Pages, 32)
	def(&o.Conns, 4096)
	def((*int64)(&o.Wait), int64(time.Second))
	def((*int64)(&o.Stall), int64(10*time.Second))
	def((*int64)(&o.Body), int64(time.Minute))
	return &Limits{o: o, bytes: semaphore.NewWeighted(o.Bytes), pages: semaphore.NewWeighted(o.Pages)}
}

// Held returns the number of counted bytes in memory.
func (l *Limits) Held() int64 { return l.held.Load() }

// Refused counts a refusal and returns its error.
func (l *Limits) Refused(code int, reason, format string, args ...any) error {
	if l.o.Rejected != nil {
		l.o.Rejected(reason)
	}
	return &Error{code, reason, fmt.Sprintf(format, args...)}
}

// Server returns a server for the handler, without an address. Its timeouts bound
// headers, idle connections, and whatever has no stricter bound: requests by
// Options.Body, responses by twice that.
func (l *Limits) Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: l.o.Stall, IdleTimeout: time.Minute,
		ReadTimeout: l.o.Body, WriteTimeout: 2 * l.o.Body,
		MaxHeaderBytes: 16 << 10,
		ConnState:      l.conn,
	}
}

const tooManyConns = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"

// conn refuses connections beyond the limit at once. If they waited to be accepted,
// the server would appear to hang.
func (l *Limits) conn(c net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		if l.conns.Add(1) > l.o.Conns {
			_ = l.Refused(http.StatusServiceUnavailable, "connections", "there are too many connections")
			_ = c.SetWriteDeadline(time.Now().Add(time.Second)) // the buffer is empty, so this succeeds
			_, _ = io.WriteString(c, tooManyConns)
			_ = c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		l.conns.Add(-1)
	}
}

// Page bounds the concurrent responses of h, because they are much larger than their
// requests.
func (l *Limits) Page(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.pages.TryAcquire(1) {
			err := l.Refused(http.StatusServiceUnavailable, "requests", "the page is being sent to too many others")
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer l.pages.Release(1)
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(2 * l.o.Stall))
		h.ServeHTTP(w, r)
	})
}

// A Request is an admitted request.
type Request struct {
	l     *Limits
	w     http.ResponseWriter
	r     *http.Request
	rc    *http.ResponseController
	held  int64
	until time.Time // deadline of the whole response; zero before it begins
}

// Begin admits a request until End. The error is an *Error.
func (l *Limits) Begin(w http.ResponseWriter, r *http.Request) (Request, error) {
	if l.requests.Add(1) > l.o.Requests {
		l.requests.Add(-1)
		return Request{}, l.Refused(http.StatusServiceUnavailable, "requests", "too many requests are under way: try again")
	}
	return Request{l: l, w: w, r: r, rc: http.NewResponseController(w)}, nil
}

// End releases what the request holds.
func (q *Request) End() {
	q.release(q.held)
	q.l.requests.Add(-1)
}

// Hold sets the number of bytes that the request holds, including Free ones. If
// there are not enough, a request that already holds some waits a little. The error
// is an *Error, or the error of the request's context.
func (q *Request) Hold(n int) error {
	more := max(0, int64(n)-Free) - q.held
	switch {
	case more <= 0:
		q.release(-more)
		return nil
	case q.held+more > q.l.o.Bytes:
		return q.l.Refused(http.StatusRequestEntityTooLarge, "size", "the request and its answer take more than the %d bytes that all requests may: send fewer rows", q.l.o.Bytes)
	case !q.l.bytes.TryAcquire(more):
		if q.held == 0 { // requests in progress would wait behind it, and none would end
			return q.l.Refused(http.StatusServiceUnavailable, "bytes", "other requests hold too many bytes: try again")
		}
		ctx, cancel := context.WithTimeout(q.r.Context(), q.l.o.Wait)
		defer cancel()
		if q.l.bytes.Acquire(ctx, more) != nil {
			if err := q.r.Context().Err(); err != nil {
				return err
			}
			return q.l.Refused(http.StatusServiceUnavailable, "bytes", "other requests hold too many bytes: try again")
		}
	}
	q.held += more
	q.l.held.Add(more)
	return nil
}

// Shrink is Hold for fewer bytes.
func (q *Request) Shrink(n int) { q.release(max(0, q.held-max(0, int64(n)-Free))) }

func (q *Request) release(n int64) {
	if n == 0 {
		return
	}
	q.held -= n
	q.l.held.Add(-n)
	q.l.bytes.Release(n)
}

// ReadBody reads the body, of at most most bytes, into the memory of buf or more.
// other is the number of other bytes that the request holds. After an error the
// connection is closed with the response, so that nobody waits for the rest of the
// body.
func (q *Request) ReadBody(buf []byte, most int64, other int) ([]byte, error) {
	buf = buf[:0]
	tooLarge := func() error {
		return q.l.Refused(http.StatusRequestEntityTooLarge, "size", "the request has more than %d bytes", most)
	}
	if q.r.ContentLength > most {
		return buf, tooLarge()
	}
	body := http.MaxBytesReader(q.w, q.r.Body, most)
	last := time.Now().Add(q.l.o.Body)
	for due := 0; ; {
		if len(buf) == cap(buf) {
			n := max(2*cap(buf), 2<<10)
			if l := q.r.ContentLength; l >= 0 { // and room to detect the end
				n = min(n, max(int(l), len(buf))+512)
			}
			if err := q.Hold(n + other); err != nil {
				return buf, err
			}
			grown := make([]byte, len(buf), n)
			copy(grown, buf)
			buf = grown
		}
		if len(buf) >= due {
			at := time.Now().Add(q.l.o.Stall)
			if last.Before(at) {
				at = last
			}
			_ = q.rc.SetReadDeadline(at)
			due = len(buf) + piece
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		var large *http.MaxBytesError
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			// Meanwhile, let the server notice when the client goes away.
			_ = q.rc.SetReadDeadline(time.Time{})
			return buf, nil
		case errors.As(err, &large):
			err = tooLarge()
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = q.l.Refused(http.StatusRequestTimeout, "slow", "the request arrived too slowly: each %d KiB may take %v, all of it %v", piece>>10, q.l.o.Stall, q.l.o.Body)
		}
		return buf, err
	}
}

// Write writes a part of the response. It returns an error if the client reads too
// slowly.
func (q *Request) Write(b []byte) (n int, err error) {
	if q.until.IsZero() {
		q.until = time.Now().Add(2 * q.l.o.Body)
	}
	for len(b) > 0 && err == nil {
		part := b[:min(len(b), piece)]
		if len(part) == piece || n > 0 {
			at := time.Now().Add(q.l.o.Stall)
			if q.until.Before(at) {
				at = q.until
			}
			_ = q.rc.SetWriteDeadline(at)
		}
		var k int
		k, err = q.w.Write(part)
		n, b = n+k, b[k:]
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = q.l.Refused(http.StatusRequestTimeout, "slow", "the response is read too slowly")
	}
	return n, err
}
