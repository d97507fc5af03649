// Package reach opens connections to Kafka brokers for looking at a cluster,
// with franz-go's client, and says at which step a broker cannot be reached,
// why, and what to do about it.
package reach

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	kgosasl "github.com/twmb/franz-go/pkg/sasl"
)

// Config says how to reach a cluster.
type Config struct {
	// Brokers are host:port addresses.
	Brokers  []string
	ClientID string
	// TLS and SASL, if not nil, encrypt and authenticate connections.
	TLS  *tls.Config
	SASL sasl.Mechanism
	// Dial, if not nil, opens connections in place of a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Timeout bounds every request; 0 is 10 s.
	Timeout time.Duration
}

// Client returns a client for requests to the cluster. A request is tried once
// with every broker named.
func (c Config) Client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(c.Options(opts...)...)
}

// Options returns the options that Client makes a client with; opts come last.
func (c Config) Options(opts ...kgo.Opt) []kgo.Opt {
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(c.Brokers...), kgo.ClientID(c.ClientID), kgo.DisableClientMetrics(),
		// Later versions of DescribeGroups say nothing about groups that do not exist.
		kgo.MaxVersions(kversion.V3_9_0()),
		kgo.RequestTimeoutOverhead(min(max(c.Timeout, 100*time.Millisecond), 15*time.Minute)), // what kgo takes
		kgo.RequestRetries(len(c.Brokers)), kgo.RetryTimeout(2 * c.Timeout), kgo.Dialer(c.dialer()),
	}, opts...)
	if c.SASL != nil {
		opts = append(opts, kgo.SASL(mechanism{c.SASL}))
	}
	return opts
}

// redial is the time from a failed connection attempt to the next one to the same
// address.
const redial = 100 * time.Millisecond

// dialer returns a function that opens connections. It waits before it tries an address
// again after a failure: while a transaction is under way and its broker is down,
// franz-go dials in a loop without a pause, which keeps a processor busy.
func (c Config) dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	var mu sync.Mutex
	failed := map[string]time.Time{} // when, by address
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		mu.Lock()
		wait := time.Until(failed[addr].Add(redial))
		mu.Unlock()
		if wait > 0 {
			t := time.NewTimer(wait)
			defer t.Stop()
			select {
			case <-t.C:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		conn, err := dial(ctx, network, addr)
		if err == nil && c.TLS != nil {
			conn, err = handshake(ctx, conn, c.TLS, addr)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed[addr] = time.Now()
			return nil, err
		}
		delete(failed, addr)
		return conn, nil
	}
}

// Broker is a connection to one broker of a cluster. It must be closed.
type Broker struct {
	*kgo.Client
	// Seed is the broker itself. Requests to the Client may go to others.
	Seed *kgo.Broker
	// Passed describes every step that has been taken.
	Passed []string
}

// Dial connects to the first of the Brokers, step by step. The error is an *Error,
// or the error of ctx.
func Dial(ctx context.Context, c Config) (*Broker, error) {
	c.Brokers, c.Timeout = c.Brokers[:1], cmp.Or(c.Timeout, 10*time.Second)
	p := &probe{Config: c, addr: c.Brokers[0]}
	if _, _, err := net.SplitHostPort(p.addr); err != nil {
		return nil, &Error{Broker: p.addr, Step: Resolve, Err: err, Refused: true}
	}
	// The probe makes its own TLS, to see how far it gets.
	c.TLS, c.Dial = nil, nil
	// kgo's own limit is longer than ours, or it would try again meanwhile.
	cl, err := c.Client(kgo.Dialer(p.dial), kgo.WithHooks(p), kgo.RequestTimeoutOverhead(min(2*c.Timeout+time.Second, 15*time.Minute)))
	if err != nil {
		return nil, &Error{Broker: p.addr, Step: Resolve, Err: err, Refused: true}
	}
	rctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	b := &Broker{Client: cl, Seed: cl.SeedBrokers()[0]}
	// A broker that requires more, such as authentication, closes the connection
	// at the first request.
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	if _, err = b.Seed.Request(rctx, req); err != nil {
		cl.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, p.explain(rctx, err)
	}
	if o, ok := p.SASL.(OAuth); ok {
		p.passed(SASL, "token"+o.about())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, step := range steps {
		if (step == TLS && p.TLS == nil) || (step == SASL && p.SASL == nil) {
			continue
		}
		b.Passed = append(b.Passed, strings.TrimSpace(step+" "+p.detail[step]))
	}
	return b, nil
}

// probe watches how far a connection gets.
type probe struct {
	Config
	addr string

	mu     sync.Mutex
	step   string // the current step
	key    int16  // of the last request
	detail map[string]string
}

// at records that the step has been reached. When kgo tries again, the farthest one
// counts.
func (p *probe) at(step string) {
	p.mu.Lock()
	if slices.Index(steps, step) > slices.Index(steps, p.step) {
		p.step = step
	}
	p.mu.Unlock()
}

func (p *probe) passed(step, detail string) {
	p.mu.Lock()
	if p.detail == nil {
		p.detail = map[string]string{}
	}
	p.detail[step] = detail
	p.mu.Unlock()
}

// dial opens connections for kgo.
func (p *probe) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	dial := p.Dial
	if dial == nil {
		p.at(Resolve)
		ips, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			return nil, err
		}
		p.passed(Resolve, strings.Join(ips, " "))
		dial = new(net.Dialer).DialContext
	}
	p.at(Connect)
	conn, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	p.passed(Connect, conn.RemoteAddr().String())
	if p.TLS == nil {
		p.at(Protocol)
		return conn, nil
	}
	p.at(TLS)
	s, err := handshake(ctx, conn, p.TLS, addr)
	if err != nil {
		return nil, err
	}
	state := s.(*tls.Conn).ConnectionState()
	p.passed(TLS, fmt.Sprintf("%s, certificate valid until %s", tls.VersionName(state.Version), state.PeerCertificates[0].NotAfter.UTC().Format(time.DateOnly)))
	p.at(Protocol)
	return s, nil
}

// handshake returns an encrypted connection over conn, which it closes if the
// other side cannot be trusted.
func handshake(ctx context.Context, conn net.Conn, cfg *tls.Config, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	cfg = cfg.Clone()
	cfg.ServerName = cmp.Or(cfg.ServerName, host)
	s := tls.Client(conn, cfg)
	if err := s.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return s, nil
}

// OnBrokerWrite implements kgo.HookBrokerWrite: the requests show the current step.
func (p *probe) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	p.mu.Lock()
	p.key = key
	p.mu.Unlock()
	switch kmsg.Key(key) {
	case kmsg.ApiVersions:
		p.at(Protocol)
	case kmsg.SASLHandshake, kmsg.SASLAuthenticate:
		p.at(SASL)
	default:
		p.at(Use)
	}
}

// mechanism adapts a mechanism of kafka-go to franz-go.
type mechanism struct{ sasl.Mechanism }

// errCredentials is an error of the client's side of an authentication.
type errCredentials struct {
	reason string
	error
}

func (e *errCredentials) Unwrap() error { return e.error }

func (m mechanism) Authenticate(ctx context.Context, addr string) (kgosasl.Session, []byte, error) {
	host, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port) // 0 for the name of a service: no mechanism here uses it
	s, first, err := m.Start(sasl.WithMetadata(ctx, &sasl.Metadata{Host: host, Port: n}))
	if err != nil {
		return nil, nil, &errCredentials{"the credentials cannot be used", err}
	}
	return session{ctx, s}, first, nil
}

type session struct {
	ctx context.Context
	sasl.StateMachine
}

func (s session) Challenge(b []byte) (bool, []byte, error) {
	done, out, err := s.Next(s.ctx, b)
	if err != nil {
		return false, nil, &errCredentials{"the broker does not prove that it knows the password", err}
	}
	return done, out, nil
}

// Franz adapts a mechanism of franz-go to kafka-go.
type Franz struct{ kgosasl.Mechanism }

var _ sasl.Mechanism = Franz{}

// Start implements sasl.Mechanism.
func (f Franz) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	s, first, err := f.Authenticate(ctx, "") // no mechanism here uses the host
	return franzSession{s}, first, err
}

type franzSession struct{ kgosasl.Session }

// Next implements sasl.StateMachine.
func (s franzSession) Next(_ context.Context, challenge []byte) (bool, []byte, error) {
	return s.Challenge(challenge)
}

// supported asks the broker for the mechanisms that it offers.
func (p *probe) supported(ctx context.Context) []string {
	c := p.Config
	c.SASL = nil
	cl, err := c.Client()
	if err != nil {
		return nil
	}
	defer cl.Close()
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Mechanism = p.SASL.Name()
	resp, err := cl.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return nil
	}
	return resp.(*kmsg.SASLHandshakeResponse).SupportedMechanisms
}
