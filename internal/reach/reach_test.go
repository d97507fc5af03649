package reach

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl/plain"
)

// What listens need not be a broker.
func TestNoBroker(t *testing.T) {
	for _, c := range []struct {
		name, answer string // to whatever comes; "": none, "close": the end
		sasl         bool
		want         string
		refused      bool
	}{
		{"TLS alert", "\x15\x03\x03\x00\x02\x02\x46", false, "the port expects TLS, but connections are not encrypted: set tls: true", true},
		{"silence", "", false, "something listens there, but it does not answer as a broker: check the port", false},
		{"silence, with SASL", "", true, "something listens there, but it does not answer as a broker: check the port", false},
		{"closed", "close", false, "the connection is closed at once: if the port expects TLS, set tls: true", false},
		{"HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n", false, "is your broker port correct?", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					defer conn.Close()
					if _, err := conn.Read(make([]byte, 1024)); err == nil && c.answer == "close" {
						conn.Close()
					} else if c.answer != "" {
						_, _ = conn.Write([]byte(c.answer))
					}
				}
			}()
			cfg := Config{Brokers: []string{l.Addr().String()}, Timeout: 500 * time.Millisecond}
			if c.sasl {
				cfg.SASL = plain.Mechanism{Username: "me", Password: "right-secret"}
			}
			_, err = Dial(t.Context(), cfg)
			var e *Error
			if !errors.As(err, &e) || e.Step != Protocol || e.Refused != c.refused || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v: %v\nwant %q", e, err, c.want)
			}
		})
	}
	if _, err := Dial(t.Context(), Config{Brokers: []string{"no port"}}); err == nil || !strings.Contains(err.Error(), "resolve") {
		t.Errorf("an address without a port: %v", err)
	}
}
