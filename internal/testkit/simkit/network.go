// Package simkit simulates the operating system for tests: a network and a disk in
// memory that can fail at any operation. Both must be used inside a bubble of
// testing/synctest: waiting for them lets virtual time pass.
package simkit

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Network connects hosts by byte streams, which take a random time of less than a
// millisecond. A write never blocks.
type Network struct {
	// Prompt says that requests which clients make while they hold a mutex, and the
	// responses, take no time, even from isolated hosts. With several concurrent
	// connections, virtual time would otherwise stand still forever if one
	// goroutine waited for a response and another one for the mutex: franz-go
	// requests producer ids like that.
	Prompt bool

	mu        sync.Mutex
	rand      *rand.Rand
	listeners map[string]*listener // by port
}

// NewNetwork returns a network whose delays are drawn with the seed.
func NewNetwork(seed uint64) *Network {
	return &Network{rand: rand.New(rand.NewPCG(seed, 1)), listeners: map[string]*listener{}}
}

func (n *Network) delay() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return 50*time.Microsecond + time.Duration(n.rand.Int64N(int64(900*time.Microsecond)))
}

// Listen implements net.Listen.
func (n *Network) Listen(_, address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[port] != nil {
		return nil, &net.OpError{Op: "listen", Net: "sim", Err: syscall.EADDRINUSE}
	}
	l := &listener{net: n, port: port, incoming: make(chan *conn), closed: make(chan struct{})}
	n.listeners[port] = l
	return l, nil
}

type listener struct {
	net      *Network
	port     string
	incoming chan *conn
	closed   chan struct{}
	once     sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.net.mu.Lock()
		defer l.net.mu.Unlock()
		delete(l.net.listeners, l.port)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return addr("127.0.0.1:" + l.port) }

type addr string

func (addr) Network() string  { return "sim" }
func (a addr) String() string { return string(a) }

// A Fault is what happens at a write.
type Fault struct {
	// Part is the fraction of the bytes that is still sent, from 0 to 1.
	Part float64
	// Reset ends the connection, Dead the host with all its connections.
	Reset, Dead bool
	// Stall delays these bytes and those that follow.
	Stall time.Duration
}

// Host is a process as the network sees it.
type Host struct {
	net  *Network
	name string
	// OnWrite is called before each write of the host.
	OnWrite func(b []byte) *Fault

	mu     sync.Mutex
	dead   bool
	away   time.Time // nothing reaches or leaves it before that
	conns  map[*conn]bool
	onDead func()
}

// Host returns a new host.
func (n *Network) Host(name string) *Host {
	return &Host{net: n, name: name, conns: map[*conn]bool{}}
}

// OnDead sets what else happens when a Fault ends the host.
func (h *Host) OnDead(do func()) { h.onDead = do }

// Kill ends the host: nothing leaves it any more, but what it has sent arrives.
func (h *Host) Kill() {
	h.mu.Lock()
	h.dead = true
	h.mu.Unlock()
	h.Reset()
}

// Reset ends all connections of the host.
func (h *Host) Reset() {
	h.mu.Lock()
	conns := h.conns
	h.conns = map[*conn]bool{}
	h.mu.Unlock()
	for c := range conns {
		c.reset()
	}
}

// Isolate disconnects the host for a while: what is in flight, and what is sent
// meanwhile, arrives late.
func (h *Host) Isolate(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.away = time.Now().Add(d)
	for c := range h.conns {
		c.in.stall(h.away)
		c.peer.in.stall(h.away)
	}
}

// Dial implements net.Dialer's DialContext. It takes no time, even while the host
// is isolated and what it sends is delayed: clients hold a mutex while they dial,
// and virtual time stands still while a goroutine waits for one.
func (h *Host) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "sim", Addr: addr(address), Err: err}
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fail(err)
	}
	h.mu.Lock()
	dead := h.dead
	h.mu.Unlock()
	if dead {
		return fail(syscall.ENETDOWN)
	}
	h.net.mu.Lock()
	l := h.net.listeners[port]
	h.net.mu.Unlock()
	if l == nil {
		return fail(syscall.ECONNREFUSED)
	}
	mine, theirs := &conn{host: h, local: addr(h.name + ":1"), remote: addr(address)}, &conn{local: addr(address), remote: addr(h.name + ":1")}
	mine.in.wake, theirs.in.wake = make(chan struct{}), make(chan struct{})
	mine.peer, theirs.peer = theirs, mine
	select {
	case l.incoming <- theirs:
	case <-l.closed:
		return fail(syscall.ECONNREFUSED)
	case <-ctx.Done():
		return fail(ctx.Err())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		go mine.reset()
	} else {
		h.conns[mine] = true
	}
	return mine, nil
}

// conn is one end of a connection.
type conn struct {
	host          *Host // nil: it belongs to the other side
	peer          *conn
	in            half
	local, remote addr
	prompt        atomic.Bool // the last request is prompt, and so is its response
}

// RequestKey returns the Kafka API key of request b, or -1 if b is not a whole
// request.
func RequestKey(b []byte) int16 {
	if len(b) > 6 && int(binary.BigEndian.Uint32(b)) == len(b)-4 {
		return int16(binary.BigEndian.Uint16(b[4:]))
	}
	return -1
}

// isPrompt reports whether b is a request that may be made while a mutex is held:
// Metadata, FindCoordinator, ApiVersions or InitProducerId.
func isPrompt(b []byte) bool { return slices.Contains([]int16{3, 10, 18, 22}, RequestKey(b)) }

// half is one direction of a connection.
type half struct {
	mu       sync.Mutex
	segments []segment
	newest   time.Time // when the last segment arrives
	err      error     // after the segments
	now      error     // instead of the segments: the reader's own end is closed
	deadline time.Time
	wake     chan struct{} // closed, and replaced, at every change
}

type segment struct {
	at   time.Time
	data []byte
}

func (f *half) changed() {
	close(f.wake)
	f.wake = make(chan struct{})
}

func (f *half) stall(until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.segments {
		if f.segments[i].at.Before(until) {
			f.segments[i].at = until
		}
	}
	if f.newest.Before(until) {
		f.newest = until
	}
	f.changed()
}

// end sets how the direction ends; what is in flight arrives before.
func (f *half) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
		f.changed()
	}
}

// shut ends it for the reader at once.
func (f *half) shut(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now == nil {
		f.now = err
		f.changed()
	}
}

func (c *conn) Read(b []byte) (int, error) {
	f := &c.in
	for {
		f.mu.Lock()
		if f.now != nil {
			f.mu.Unlock()
			return 0, f.now
		}
		now := time.Now()
		if !f.deadline.IsZero() && !now.Before(f.deadline) {
			f.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		}
		next := f.deadline
		if len(f.segments) > 0 {
			s := &f.segments[0]
			if !s.at.After(now) {
				n := copy(b, s.data)
				if s.data = s.data[n:]; len(s.data) == 0 {
					f.segments = f.segments[1:]
				}
				f.mu.Unlock()
				return n, nil
			}
			if next.IsZero() || s.at.Before(next) {
				next = s.at
			}
		} else if f.err != nil {
			f.mu.Unlock()
			return 0, f.err
		}
		wake := f.wake
		f.mu.Unlock()
		if next.IsZero() {
			<-wake
			continue
		}
		t := time.NewTimer(next.Sub(now))
		select {
		case <-wake:
		case <-t.C:
		}
		t.Stop()
	}
}

func (c *conn) Write(b []byte) (int, error) {
	var fault *Fault
	away := time.Time{}
	if far := c.peer.host; far != nil {
		far.mu.Lock()
		away = far.away
		far.mu.Unlock()
	}
	if h := c.host; h != nil {
		h.mu.Lock()
		on, dead := h.OnWrite, h.dead
		away = h.away
		h.mu.Unlock()
		if dead {
			return 0, c.broken(syscall.ENETDOWN)
		}
		if on != nil {
			fault = on(b)
		}
	}
	out := &c.peer.in
	if fault != nil && fault.Part < 1 {
		b = b[:int(fault.Part*float64(len(b)))]
	}
	delay := c.delay()
	mine := c
	if c.host == nil {
		mine = c.peer
	} else {
		c.prompt.Store(c.host.net.Prompt && isPrompt(b))
	}
	if mine.prompt.Load() {
		delay, away = 0, time.Time{}
	}
	c.in.mu.Lock()
	err := c.in.now
	c.in.mu.Unlock()
	out.mu.Lock()
	if err == nil && out.now != nil {
		err = syscall.EPIPE
	}
	if err != nil || out.err != nil {
		out.mu.Unlock()
		if err == nil {
			err = net.ErrClosed
		}
		return 0, c.broken(err)
	}
	at := time.Now().Add(delay)
	if fault != nil {
		at = at.Add(fault.Stall)
	}
	for _, t := range []time.Time{out.newest, away} {
		if at.Before(t) {
			at = t
		}
	}
	if len(b) > 0 {
		out.newest = at
		out.segments = append(out.segments, segment{at, append([]byte(nil), b...)})
		out.changed()
	}
	out.mu.Unlock()
	switch {
	case fault == nil:
	case fault.Dead:
		c.host.Kill()
		if c.host.onDead != nil {
			c.host.onDead()
		}
		return len(b), c.broken(syscall.ENETDOWN)
	case fault.Reset:
		c.reset()
		return len(b), c.broken(syscall.ECONNRESET)
	}
	return len(b), nil
}

func (c *conn) delay() time.Duration {
	if c.host != nil {
		return c.host.net.delay()
	}
	return c.peer.host.net.delay()
}

func (c *conn) broken(err error) error {
	return &net.OpError{Op: "write", Net: "sim", Source: c.local, Addr: c.remote, Err: err}
}

// reset ends the connection for both sides, at once for this one.
func (c *conn) reset() {
	err := &net.OpError{Op: "read", Net: "sim", Source: c.local, Addr: c.remote, Err: syscall.ECONNRESET}
	c.in.shut(err)
	c.in.end(err)
	c.peer.in.end(err)
	c.forget()
}

func (c *conn) Close() error {
	c.in.shut(net.ErrClosed)
	c.peer.in.end(io.EOF)
	c.forget()
	return nil
}

func (c *conn) forget() {
	for _, end := range []*conn{c, c.peer} {
		if h := end.host; h != nil {
			h.mu.Lock()
			delete(h.conns, end)
			h.mu.Unlock()
		}
	}
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.deadline = t
	c.in.changed()
	return nil
}

// SetWriteDeadline does nothing: writes do not block.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// String names the host.
func (h *Host) String() string { return fmt.Sprintf("host %s", h.name) }
