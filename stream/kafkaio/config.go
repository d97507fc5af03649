// Package kafkaio reads and writes records on Apache Kafka: a Source, a
// Producer, and the topic metadata that both need. Models on Kafka are in package
// modeltopic.
//
// The position of a Source belongs to the checkpoint of the program that
// reads. So a Source joins no consumer group: it fetches partitions one by one
// from the given offsets, skips nothing silently, and only reports its progress
// to a group, if one is named. A Session is for programs without a checkpoint:
// it is a member of a group, which keeps the positions.
//
// The API may change, except Config and SourceOptions, which package trainer
// uses.
package kafkaio

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"golang.org/x/oauth2"

	"github.com/streamsvm/streamsvm/internal/reach"
)

// Config is how to reach a cluster. It holds secrets in TLS and SASL and
// must not be logged.
type Config struct {
	// Brokers are host:port addresses of at least one broker of the cluster.
	Brokers []string
	// ClientID names this program in the brokers' logs and quotas; empty is
	// "streamsvm".
	ClientID string
	// TLS, if not nil, encrypts connections.
	TLS *tls.Config
	// SASL, if not nil, authenticates connections.
	SASL sasl.Mechanism
	// Dial, if not nil, opens all connections in place of a net.Dialer, e.g. through a
	// proxy or on a simulated network. TLS is added to the connection it returns.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Log receives changes of state, not progress; nil is slog.Default().
	Log *slog.Logger
	// RequestTimeout bounds every request, in addition to the time that a broker may
	// wait, so that a hanging broker is noticed; 0 is 10 s.
	RequestTimeout time.Duration
}

// client is a separate connection pool for one reader or writer.
type client struct {
	*kafka.Client
	transport *transport
	timeout   time.Duration
	log       *slog.Logger
	cfg       Config
}

// metadataTTL bounds how long a moved leader or a new partition goes
// unnoticed.
const metadataTTL = 2 * time.Second

// Validate returns an error if the configuration cannot reach any cluster: no
// broker, or an address that is not host:port. It does not use the network.
func (c Config) Validate() error {
	if len(c.Brokers) == 0 {
		return errors.New("kafka: no broker address given")
	}
	for _, b := range c.Brokers {
		_, port, err := net.SplitHostPort(b)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return fmt.Errorf("kafka: broker address %q is not host:port", b)
		}
	}
	return nil
}

func (c Config) open(topics []string) (*client, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.ClientID = cmp.Or(c.ClientID, "streamsvm")
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.RequestTimeout <= 0 {
		c.RequestTimeout = 10 * time.Second
	}
	t := &transport{kafka.Transport{
		ClientID:       c.ClientID,
		TLS:            c.TLS,
		SASL:           c.SASL,
		MetadataTTL:    metadataTTL,
		MetadataTopics: topics,
		Dial:           c.Dial,
	}}
	addr := kafka.TCP(c.Brokers...)
	return &client{
		Client:    &kafka.Client{Addr: addr, Transport: t},
		transport: t,
		timeout:   c.RequestTimeout,
		log:       c.Log,
		cfg:       c,
	}, nil
}

// transport is kafka-go's, which does not renew sessions (KIP-368): when one ends,
// with its token or after connections.max.reauth.ms, the broker closes the
// connection at the next request. So any request through it may be sent twice.
type transport struct{ kafka.Transport }

// RoundTrip implements kafka.RoundTripper.
func (t *transport) RoundTrip(ctx context.Context, addr net.Addr, req kafka.Request) (kafka.Response, error) {
	resp, err := t.Transport.RoundTrip(ctx, addr, req)
	if t.SASL != nil && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		t.CloseIdleConnections() // their sessions are just as old
		return t.Transport.RoundTrip(ctx, addr, req)
	}
	return resp, err
}

func (c *client) close() { c.transport.CloseIdleConnections() }

// refused returns why no broker can be used if waiting will not change that, and nil
// otherwise. kafka-go reports it as a closed connection.
func (c *client) refused(ctx context.Context) error {
	if e := c.fault(ctx); e == nil || !e.Refused {
		return nil
	}
	// A broker that dies during the check closes a connection too, but only once.
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	if e := c.fault(ctx); e != nil && e.Refused {
		return reachError(e)
	}
	return nil
}

// fault returns why the first broker cannot be used, nil if any of them can.
func (c *client) fault(ctx context.Context) (first *reach.Error) {
	for _, addr := range c.cfg.Brokers {
		o := c.cfg.reach()
		o.Brokers = []string{addr}
		b, err := reach.Dial(ctx, o)
		if err == nil {
			b.Close()
			return nil
		}
		var e *reach.Error
		if first == nil && errors.As(err, &e) {
			first = e
		}
	}
	return first
}

func reachError(first *reach.Error) error {
	return &ReachError{Broker: first.Broker, Step: first.Step, Reason: first.Text(), Remedy: first.Remedy, Err: first}
}

func (c Config) reach() reach.Config {
	return reach.Config{Brokers: c.Brokers, ClientID: c.ClientID, TLS: c.TLS, SASL: c.SASL, Dial: c.Dial, Timeout: c.RequestTimeout}
}

// OAuthBearer returns the mechanism OAUTHBEARER (RFC 7628). Every connection requests
// a token: a source should cache tokens that are still valid, as oauth2.ReuseTokenSource
// does. Extensions, if there are any, are sent with it.
func OAuthBearer(tokens oauth2.TokenSource, extensions map[string]string) sasl.Mechanism {
	return reach.OAuth{Source: tokens, Extensions: extensions}
}

// ScramSHA256 returns the mechanism SCRAM-SHA-256 (RFC 5802). As with Apache Kafka,
// name and password are taken as they are, without SASLprep.
func ScramSHA256(user, password string) sasl.Mechanism {
	return reach.Franz{Mechanism: scram.Auth{User: user, Pass: password}.AsSha256Mechanism()}
}

// ScramSHA512 returns the mechanism SCRAM-SHA-512, otherwise like ScramSHA256.
func ScramSHA512(user, password string) sasl.Mechanism {
	return reach.Franz{Mechanism: scram.Auth{User: user, Pass: password}.AsSha512Mechanism()}
}

// ReachError says why no broker can be used: either the two sides disagree, which
// waiting will not change, or none has answered within the allowed time. It holds
// no secret.
type ReachError struct {
	Broker string
	// Step is the step that failed: resolve, connect, tls, protocol, sasl or use.
	Step string
	// Reason describes the failure in words; Remedy, which may be empty, says what to
	// do about it.
	Reason, Remedy string
	Err            error
}

func (e *ReachError) Error() string { return e.Err.Error() }

func (e *ReachError) Unwrap() error { return e.Err }

// request returns the context for one request that the broker may take wait
// to answer.
func (c *client) request(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, wait+c.timeout)
}

// backoff is the wait between attempts: 50 ms, doubled up to 2 s. It is the
// same on every run, so that tests and logs can be compared.
type backoff struct{ wait time.Duration }

const (
	backoffMin = 50 * time.Millisecond
	backoffMax = 2 * time.Second
)

func (b *backoff) reset() { b.wait = 0 }

// sleep waits for the next interval or until ctx ends.
func (b *backoff) sleep(ctx context.Context) error {
	b.wait = min(max(2*b.wait, backoffMin), backoffMax)
	return sleep(ctx, b.wait)
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Permanent reports whether trying again will not help against err: the broker
// answered, and the answer is a refusal.
func Permanent(err error) bool {
	var ke kafka.Error
	if !errors.As(err, &ke) {
		return false // the network, or a broker that is starting or stopping
	}
	switch ke {
	case kafka.Unknown: // kafka-go's code for "one of several requests failed"
		return false
	case kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed,
		kafka.SASLAuthenticationFailed, kafka.UnsupportedSASLMechanism, kafka.UnsupportedVersion, kafka.InvalidTopic,
		kafka.TopicAlreadyExists, kafka.InvalidConfiguration, kafka.InvalidReplicationFactor, kafka.InvalidPartitionNumber,
		kafka.PolicyViolation, kafka.MessageSizeTooLarge, kafka.TransactionalIDAuthorizationFailed, kafka.InvalidTransactionTimeout, kafka.InvalidRequest, kafka.SecurityDisabled,
		kafka.UnsupportedForMessageFormat, kafka.InvalidRequiredAcks:
		return true
	}
	return false
}
