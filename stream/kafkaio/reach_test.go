package kafkaio

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/streamsvm/streamsvm/contrib/broker"
	"github.com/streamsvm/streamsvm/internal/reach"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

const password = "right-secret"

func login(mechanism, user, secret string) sasl.Mechanism {
	switch mechanism {
	case "SCRAM-SHA-256":
		return ScramSHA256(user, secret)
	case "SCRAM-SHA-512":
		return ScramSHA512(user, secret)
	}
	return plain.Mechanism{Username: user, Password: secret}
}

func startBroker(t *testing.T, o broker.Options) string {
	t.Helper()
	b, err := broker.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b.Addr()
}

// A wrong credential, an untrusted or expired certificate and the like are
// named, at their stage, and end a start at once: there is no limit to how long
// a source waits for a cluster here, so a test that would wait times out.
func TestReachError(t *testing.T) {
	ca, other := kafkatest.NewAuthority(t, "our CA"), kafkatest.NewAuthority(t, "another CA")
	server, client := ca.Issue("localhost", time.Hour), ca.Issue("trainer", time.Hour)
	users := []kafkatest.User{
		{Mechanism: "PLAIN", Name: "me", Password: password, Super: true},
		{Mechanism: "SCRAM-SHA-512", Name: "me", Password: password, Super: true},
	}
	with := func(p kafkatest.Pair) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{p.TLS}} }
	mutual := with(server)
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool
	trusting := &tls.Config{RootCAs: ca.Pool}
	showing := func(p kafkatest.Pair) *tls.Config {
		return &tls.Config{RootCAs: ca.Pool, Certificates: []tls.Certificate{p.TLS}}
	}
	plainAddr := startBroker(t, broker.Options{})
	tlsAddr := startBroker(t, broker.Options{TLS: with(server)})
	mutualAddr := startBroker(t, broker.Options{TLS: mutual})
	saslAddr := startBroker(t, broker.Options{More: kafkatest.Users(users...)})
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close() // nothing listens there now

	for _, c := range []struct {
		name    string
		cfg     Config
		stage   string
		want    string
		refused bool
	}{
		{"plain", Config{Brokers: []string{plainAddr}}, "", "", false},
		{"tls", Config{Brokers: []string{tlsAddr}, TLS: trusting}, "", "", false},
		{"client certificate", Config{Brokers: []string{mutualAddr}, TLS: showing(client)}, "", "", false},
		{"PLAIN", Config{Brokers: []string{saslAddr}, SASL: login("PLAIN", "me", password)}, "", "", false},
		{"SCRAM", Config{Brokers: []string{saslAddr}, SASL: login("SCRAM-SHA-512", "me", password)}, "", "", false},

		{"no such name", Config{Brokers: []string{"no-such-host.invalid:9092"}}, reach.Resolve, "no-such-host.invalid cannot be resolved", false},
		{"nothing listens", Config{Brokers: []string{free.Addr().String()}}, reach.Connect, "nothing listens there", false},
		{"no tls", Config{Brokers: []string{tlsAddr}}, reach.Protocol, "set tls: true", false},
		{"tls to a plain port", Config{Brokers: []string{plainAddr}, TLS: trusting}, reach.TLS, "leave out tls", false},
		{"authority not trusted", Config{Brokers: []string{tlsAddr}, TLS: &tls.Config{RootCAs: other.Pool}}, reach.TLS, "signed by an authority that is not trusted (CN=our CA): set tls-ca", true},
		{"broker's certificate expired", Config{Brokers: []string{startBroker(t, broker.Options{TLS: with(ca.Issue("localhost", -time.Hour))})}, TLS: trusting}, reach.TLS, "the broker's certificate has expired on ", true},
		{"certificate for another name", Config{Brokers: []string{startBroker(t, broker.Options{TLS: with(ca.Issue("elsewhere.example", time.Hour))})}, TLS: trusting}, reach.TLS, "is not for 127.0.0.1, but for elsewhere.example", true},
		{"no client certificate", Config{Brokers: []string{mutualAddr}, TLS: trusting}, reach.TLS, "the broker wants a client certificate", true},
		{"client certificate expired", Config{Brokers: []string{mutualAddr}, TLS: showing(ca.Issue("trainer", -time.Hour))}, reach.TLS, "refuses the client's certificate, which has expired on ", true},
		{"client certificate of another authority", Config{Brokers: []string{mutualAddr}, TLS: showing(other.Issue("trainer", time.Hour))}, reach.TLS, "refuses the client's certificate (CN=trainer, signed by CN=another CA)", true},
		{"no authentication", Config{Brokers: []string{saslAddr}}, reach.Use, "it wants SASL: set sasl-mechanism", true},
		{"wrong password, PLAIN", Config{Brokers: []string{saslAddr}, SASL: login("PLAIN", "me", "wrong-secret")}, reach.SASL, "refuses user name or password", true},
		{"wrong password, SCRAM", Config{Brokers: []string{saslAddr}, SASL: login("SCRAM-SHA-512", "me", "wrong-secret")}, reach.SASL, "refuses user name or password", true},
		{"unknown user", Config{Brokers: []string{saslAddr}, SASL: login("PLAIN", "you", password)}, reach.SASL, "refuses user name or password", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // a refusal takes a second
			c.cfg.RequestTimeout = 20 * time.Second
			if c.name == "tls to a plain port" { // the embedded broker waits for the rest of what it takes for a request
				c.cfg.RequestTimeout = time.Second
			}
			conn, err := reach.Dial(t.Context(), c.cfg.reach())
			if c.stage == "" {
				if err != nil {
					t.Fatal(err)
				}
				conn.Close()
				if last := conn.Passed[len(conn.Passed)-1]; last != reach.Use {
					t.Errorf("passed: %v", conn.Passed)
				}
				return
			}
			var e *reach.Error
			if !errors.As(err, &e) || e.Step != c.stage || e.Refused != c.refused || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %+v: %v\nwant stage %s, %q", e, err, c.stage, c.want)
			}
			if !c.refused {
				return
			}
			var log bytes.Buffer
			c.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
			var own *ReachError
			if _, err = NewSource(t.Context(), SourceOptions{Config: c.cfg, Topics: []string{"t"}}); !errors.As(err, &own) || own.Step != c.stage || !strings.Contains(err.Error(), c.want) {
				t.Errorf("a source says %v", err)
			}
			if all := log.String() + e.Error(); strings.Contains(all, "-secret") {
				t.Errorf("a password is told: %s", all)
			}
		})
	}
	// A broker that is down is waited for.
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := NewSource(ctx, SourceOptions{Config: Config{Brokers: []string{free.Addr().String()}, Log: slog.New(slog.DiscardHandler)}, Topics: []string{"t"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a broker that is down: %v", err)
	}
}

// Every mechanism, with and without TLS, carries records both ways.
func TestSecurityMatrix(t *testing.T) {
	ca := kafkatest.NewAuthority(t, "our CA")
	server := ca.Issue("localhost", time.Hour)
	for _, mechanism := range []string{"", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		for _, encrypted := range []string{"plain", "tls", "mutual tls"} {
			t.Run(mechanism+"/"+encrypted, func(t *testing.T) {
				o, cfg := broker.Options{}, Config{}
				if encrypted != "plain" {
					o.TLS, cfg.TLS = &tls.Config{Certificates: []tls.Certificate{server.TLS}}, &tls.Config{RootCAs: ca.Pool}
				}
				if encrypted == "mutual tls" {
					o.TLS.ClientAuth, o.TLS.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool
					cfg.TLS.Certificates = []tls.Certificate{ca.Issue("trainer", time.Hour).TLS}
				}
				if mechanism != "" {
					o.More = kafkatest.Users(kafkatest.User{Mechanism: mechanism, Name: "me", Password: password, Super: true})
					cfg.SASL = login(mechanism, "me", password)
				}
				cfg.Brokers = []string{startBroker(t, o)}
				roundTrip(t, cfg, "t")
			})
		}
	}
}

// roundTrip creates the topic and sends a record through it.
func roundTrip(t *testing.T, cfg Config, topic string) {
	t.Helper()
	if _, err := CreateTopic(t.Context(), cfg, TopicSpec{Name: topic, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	p := produce(t, ProducerOptions{Config: cfg})
	want := rec(topic, 0, 1, "x")
	if err := p.Produce(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := open(t, SourceOptions{Config: cfg, Topics: []string{topic}, UntilEnd: true})
	sameOrder(t, take(t, s, -1), []stream.Record{want})
}

// A topic that exists can be used without the permission to create it.
func TestCreateTopicThatExists(t *testing.T) {
	addr := startBroker(t, broker.Options{More: kafkatest.Users([]kafkatest.User{
		{Mechanism: "PLAIN", Name: "admin", Password: password, Super: true},
		{Mechanism: "PLAIN", Name: "writer", Password: password, Allow: []kafkatest.Grant{{Resource: "TOPIC", Name: "there", Operation: "WRITE"}}},
	}...)})
	as := func(user string) Config {
		return Config{Brokers: []string{addr}, SASL: login("PLAIN", user, password), Log: slog.New(slog.DiscardHandler)}
	}
	if created, err := CreateTopic(t.Context(), as("admin"), TopicSpec{Name: "there", Partitions: 1}); err != nil || !created {
		t.Fatal(created, err)
	}
	if created, err := CreateTopic(t.Context(), as("writer"), TopicSpec{Name: "there", Partitions: 1}); err != nil || created {
		t.Errorf("created %v, %v", created, err)
	}
	if _, err := CreateTopic(t.Context(), as("writer"), TopicSpec{Name: "elsewhere", Partitions: 1}); err == nil || !strings.Contains(err.Error(), "topic elsewhere") {
		t.Errorf("a topic that may not be created: %v", err)
	}
}
