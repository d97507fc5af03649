// Package admit bounds what the clients of an HTTP server can make it hold: the
// bytes of requests and answers under way as a whole, the requests and connections
// at a time, and how long each may take.
//
// Bytes are reserved as they arrive, not as they are announced, so that a client
// that sends slowly holds little. Nothing here is needed to answer whether the
// service is healthy, and for its metrics, so these are answered when everything
// else is used up.
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

// DefaultBytes is how many bytes of requests and answers are held by default.
const DefaultBytes = 64 << 20

// Free is how many bytes each request may hold that are not counted. The bound on
// requests bounds them. A small request is thus answered while large ones hold all
// there is to hold.
const Free = 32 << 10

// piece is how many bytes have to go over the connection within Options.Stall.
const piece = 64 << 10

// Options are the limits. Those that are 0 are the defaults.
type Options struct {
	// Bytes are those of requests and answers; default DefaultBytes.
	Bytes int64
	// Requests at a time, of those that Begin is called for; default 2048.
	Requests int64
	// Pages at a time, of those that Page is called for; default 32.
	Pages int64
	// Conns are connections; default 4096.
	Conns int64
	// Wait is how long a request that holds bytes waits for more before it is
	// refused; default 1 s.
	Wait time.Duration
	// Stall is how long 64 KiB of a body or an answer may take; default 10 s.
	Stall time.Duration
	// Body is how long a body may take; default 1 min. An answer may take twice that.
	Body time.Duration
	// Rejected, if not nil, is called with the reason when a request or a
	// connection is refused: one of Reasons.
	Rejected func(reason string)
}

// Reasons are why requests and connections are refused.
func Reasons() []string { return []string{"busy", "bytes", "connections", "requests", "size", "slow"} }

// An Error says why a request is refused.
type Error struct {
	Code   int    // status: 408, 413 or 503
	Reason string // one of Reasons
	Text   string
}

func (e *Error) Error() string { return e.Text }

// Limits are those of one server.
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

// Held returns how many bytes are held that count.
func (l *Limits) Held() int64 { return l.held.Load() }

// Refused counts a refusal and returns its error.
func (l *Limits) Refused(code int, reason, format string, args ...any) error {
	if l.o.Rejected != nil {
		l.o.Rejected(reason)
	}
	return &Error{code, reason, fmt.Sprintf(format, args...)}
}

// Server returns a server for the handler, without an address. Its times bound
// headers, connections on which nothing happens, and whatever has no stricter
// bound: requests by Options.Body, their answers by twice that.
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

// conn refuses the connection that is one too many at once: one that waited to be
// accepted would look like a server that hangs.
func (l *Limits) conn(c net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		if l.conns.Add(1) > l.o.Conns {
			_ = l.Refused(http.StatusServiceUnavailable, "connections", "there are too many connections")
			_ = c.SetWriteDeadline(time.Now().Add(time.Second)) // an empty buffer takes it
			_, _ = io.WriteString(c, tooManyConns)
			_ = c.Close()
		}
	case http.StateClosed, http.StateHijacked:
		l.conns.Add(-1)
	}
}

// Page bounds how many answers of h there are at a time, which are much larger
// than their requests.
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

// A Request is one that has been admitted.
type Request struct {
	l     *Limits
	w     http.ResponseWriter
	r     *http.Request
	rc    *http.ResponseController
	held  int64
	until time.Time // when the whole answer must have gone; zero before it begins
}

// Begin admits a request, until End. The error is an *Error.
func (l *Limits) Begin(w http.ResponseWriter, r *http.Request) (Request, error) {
	if l.requests.Add(1) > l.o.Requests {
		l.requests.Add(-1)
		return Request{}, l.Refused(http.StatusServiceUnavailable, "requests", "too many requests are under way: try again")
	}
	return Request{l: l, w: w, r: r, rc: http.NewResponseController(w)}, nil
}

// End gives back what the request holds.
func (q *Request) End() {
	q.release(q.held)
	q.l.requests.Add(-1)
}

// Hold says how many bytes the request holds from now on, Free ones included. If
// there are not so many, a request that already holds some waits a little. The error is an *Error, or that of the
// context of the request.
func (q *Request) Hold(n int) error {
	more := max(0, int64(n)-Free) - q.held
	switch {
	case more <= 0:
		q.release(-more)
		return nil
	case q.held+more > q.l.o.Bytes:
		return q.l.Refused(http.StatusRequestEntityTooLarge, "size", "the request and its answer take more than the %d bytes that all requests may: send fewer rows", q.l.o.Bytes)
	case !q.l.bytes.TryAcquire(more):
		if q.held == 0 { // those that have begun would wait behind it, and none would end
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

// ReadBody reads the body, of at most so many bytes, to the memory of buf or
// to more. The request holds other bytes besides. On errors the connection is
// closed after the answer, because what is left of the body is not waited for.
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
			if l := q.r.ContentLength; l >= 0 { // and room to see the end
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
			// The server waits for the client to go away meanwhile.
			_ = q.rc.SetReadDeadline(time.Time{})
			return buf, nil
		case errors.As(err, &large):
			err = tooLarge()
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = q.l.Refused(http.StatusRequestTimeout, "slow", "the request has come too slowly: each %d KiB may take %v, all of it %v", piece>>10, q.l.o.Stall, q.l.o.Body)
		}
		return buf, err
	}
}

// Write writes a part of the answer. A client that takes it too slowly is an
// error.
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
		err = q.l.Refused(http.StatusRequestTimeout, "slow", "the answer is taken too slowly")
	}
	return n, err
}
