package kafkatest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// A forwarder does what Cut says: without that, a test with a cut network would
// be one without.
func TestGate(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	g := newGate(t, free.Addr().String(), echo.Addr().String())
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", g.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	say := func(c net.Conn, what string) {
		t.Helper()
		if _, err := io.WriteString(c, what+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(c net.Conn, within time.Duration) (string, error) {
		_ = c.SetReadDeadline(time.Now().Add(within))
		return bufio.NewReader(c).ReadString('\n')
	}
	hears := func(c net.Conn, want string) {
		t.Helper()
		if got, err := hear(c, time.Minute); err != nil || got != want+"\n" {
			t.Errorf("heard %q, %v; want %q", got, err, want)
		}
	}
	a := dial()
	say(a, "open")
	hears(a, "open")

	g.set(Hole)
	b := dial()
	for _, c := range []net.Conn{a, b} {
		say(c, "hole")
		if got, err := hear(c, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("heard %q, %v through a hole", got, err)
		}
	}
	g.set(Open)
	hears(a, "hole")
	hears(b, "hole")

	g.set(Refuse)
	if got, err := hear(a, time.Minute); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("heard %q, %v of a connection that is cut", got, err)
	}
	if c, err := net.Dial("tcp", g.addr); err == nil {
		c.Close()
		t.Error("connected although connections are refused")
	}
	g.set(Open)
	c := dial()
	say(c, "again")
	hears(c, "again")
}
