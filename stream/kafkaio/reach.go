package kafkaio

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Stage is a step on the way to a broker.
type Stage string

// The stages, in their order.
const (
	Resolve  Stage = "resolve"  // the name has an address
	Connect  Stage = "connect"  // something listens there
	TLS      Stage = "tls"      // both sides trust each other's certificates
	Protocol Stage = "protocol" // it is a broker of Kafka
	SASL     Stage = "sasl"     // it accepts the credentials
	Use      Stage = "use"      // it answers requests
)

// ReachError says at which stage a broker cannot be reached, and why. It holds
// no secret.
type ReachError struct {
	Broker string
	Stage  Stage
	// Reason says in words what is wrong, Remedy what to do about it; both may
	// be empty.
	Reason, Remedy string
	Err            error
	// Refused says that the two sides do not agree, which waiting will not
	// change.
	Refused bool
}

func (e *ReachError) Error() string {
	text := e.Reason
	if text == "" {
		text = e.Err.Error()
	}
	if e.Remedy != "" {
		text += ": " + e.Remedy
	}
	return fmt.Sprintf("kafka: broker %s: %s: %s", e.Broker, e.Stage, text)
}

func (e *ReachError) Unwrap() error { return e.Err }

// Conn is a connection to one broker for looking at a cluster: it takes any
// request, one at a time. It must be closed.
type Conn struct {
	broker   string
	conn     net.Conn
	format   *kmsg.RequestFormatter
	timeout  time.Duration
	id       int32
	versions map[int16]int16 // highest version of each request
	secure   bool
}

// Dial connects to the broker at addr, host:port, stage by stage. The error is
// a *ReachError, or that of ctx. passed, if not nil, is told about every stage
// that has been passed.
func Dial(ctx context.Context, cfg Config, addr string, passed func(Stage, string)) (*Conn, error) {
	if passed == nil {
		passed = func(Stage, string) {}
	}
	if cfg.ClientID == "" {
		cfg.ClientID = "streamsvm"
	}
	if cfg.RequestTimeout <= 0 {
		cfg.RequestTimeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.RequestTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, &ReachError{Broker: addr, Stage: Resolve, Err: err, Refused: true}
	}
	ips, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		e := &ReachError{Broker: addr, Stage: Resolve, Err: err, Reason: fmt.Sprintf("the name %s cannot be resolved", host)}
		var dns *net.DNSError
		if errors.As(err, &dns) && dns.IsNotFound {
			e.Remedy = "check the spelling, and that this machine uses the cluster's name server"
		}
		return nil, e
	}
	passed(Resolve, strings.Join(ips, " "))
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, &ReachError{Broker: addr, Stage: Connect, Err: err, Reason: connectReason(err), Remedy: "check the port, that the broker runs, and firewalls between"}
	}
	passed(Connect, raw.RemoteAddr().String())
	c := &Conn{broker: addr, conn: raw, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(cfg.ClientID)), timeout: cfg.RequestTimeout}
	if err := c.open(ctx, cfg, host, port, passed); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func connectReason(err error) string {
	var ne net.Error
	switch {
	case errors.As(err, &ne) && ne.Timeout():
		return "nothing answers"
	case strings.Contains(err.Error(), "refused"):
		return "nothing listens there (connection refused)"
	}
	return err.Error()
}

// open makes a connected socket a connection to a broker that may be used.
func (c *Conn) open(ctx context.Context, cfg Config, host, port string, passed func(Stage, string)) error {
	if cfg.TLS != nil {
		c.secure = true
		t := cfg.TLS.Clone()
		if t.ServerName == "" {
			t.ServerName = host
		}
		s := tls.Client(c.conn, t)
		if err := s.HandshakeContext(ctx); err != nil {
			return c.tlsError(err, cfg.TLS)
		}
		c.conn = s
	}
	// With TLS 1.3 the broker's opinion of our certificate comes with the first
	// answer.
	versions, err := c.apiVersions(ctx)
	if err != nil {
		if c.secure && strings.Contains(err.Error(), "remote error: tls:") {
			return c.tlsError(err, cfg.TLS)
		}
		return c.protocolError(ctx, err)
	}
	if c.secure {
		state := c.conn.(*tls.Conn).ConnectionState()
		passed(TLS, fmt.Sprintf("%s, certificate valid until %s", tls.VersionName(state.Version), state.PeerCertificates[0].NotAfter.UTC().Format(time.DateOnly)))
	}
	c.versions = versions
	passed(Protocol, fmt.Sprintf("%d kinds of requests", len(versions)))
	if cfg.SASL != nil {
		n, err := strconv.Atoi(port)
		if err != nil {
			n = 0 // a service name; no mechanism here looks at it
		}
		if err := c.authenticate(sasl.WithMetadata(ctx, &sasl.Metadata{Host: host, Port: n}), cfg.SASL); err != nil {
			return err
		}
		passed(SASL, cfg.SASL.Name())
	}
	// A broker that wants more than it has been told closes the connection at
	// the first request.
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	if _, err := c.Request(ctx, req); err != nil {
		e := &ReachError{Broker: c.broker, Stage: Use, Err: err}
		if closed(err) && cfg.SASL == nil {
			e.Reason, e.Remedy, e.Refused = "the broker closes the connection at the first request without authentication", "it wants SASL: set sasl-mechanism, sasl-username and sasl-password-file", true
		}
		return e
	}
	passed(Use, "")
	return nil
}

// closed tells whether the other side has ended the connection.
func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "connection reset")
}

// errTLSAnswer says that the answer was a record of TLS.
var errTLSAnswer = errors.New("the answer is TLS")

func (c *Conn) protocolError(ctx context.Context, err error) error {
	e := &ReachError{Broker: c.broker, Stage: Protocol, Err: err}
	switch {
	case ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded):
		e.Reason = "something listens there, but it does not answer as a broker"
		e.Remedy = "check the port; if it expects TLS, set tls"
	case errors.Is(err, errTLSAnswer) && !c.secure:
		e.Reason, e.Remedy, e.Refused = "the port expects TLS, but connections are not encrypted", "set tls: true", true
	case closed(err) && !c.secure:
		// A broker that is starting or stopping does the same, so waiting may help.
		e.Reason = "the connection is closed at once"
		e.Remedy = "if the port expects TLS, set tls: true"
	}
	return e
}

// tlsError explains why a handshake has failed.
func (c *Conn) tlsError(err error, cfg *tls.Config) error {
	e := &ReachError{Broker: c.broker, Stage: TLS, Err: err, Refused: true}
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var header tls.RecordHeaderError
	day := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	switch {
	case errors.As(err, &authority):
		issuer := ""
		if authority.Cert != nil {
			issuer = " (" + authority.Cert.Issuer.String() + ")"
		}
		e.Reason = "the broker's certificate is signed by an authority that is not trusted" + issuer
		e.Remedy = "set tls-ca to the PEM file of the authority's certificate"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		if time.Now().Before(invalid.Cert.NotBefore) {
			e.Reason, e.Remedy = "the broker's certificate is not valid before "+day(invalid.Cert.NotBefore), "check this machine's clock"
		} else {
			e.Reason, e.Remedy = "the broker's certificate has expired on "+day(invalid.Cert.NotAfter), "renew it on the broker"
		}
	case errors.As(err, &name):
		e.Reason = fmt.Sprintf("the broker's certificate is not for %s, but for %s", name.Host, strings.Join(certificateNames(name.Certificate), ", "))
		e.Remedy = "use a name that it is for in brokers, or have the broker's certificate (and advertised.listeners) changed"
	case errors.As(err, &header):
		e.Reason, e.Remedy = "the port does not speak TLS", "use the port of the TLS listener, or leave out tls"
	case strings.Contains(err.Error(), "remote error: tls:"):
		c.refusedCertificate(e, cfg)
	default:
		// The network, or a broker that ends in mid-handshake.
		e.Refused = false
		e.Remedy = "if the port does not speak TLS, leave out tls"
		switch {
		case closed(err):
			e.Reason = "the connection is closed during the handshake"
		case errors.Is(err, context.DeadlineExceeded):
			e.Reason = "nothing answers the handshake"
		}
	}
	return e
}

func certificateNames(c *x509.Certificate) []string {
	names := c.DNSNames
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		names = []string{c.Subject.String()}
	}
	return names
}

// refusedCertificate explains what a broker may have against the certificate
// that it was shown, or not shown.
func (c *Conn) refusedCertificate(e *ReachError, cfg *tls.Config) {
	if len(cfg.Certificates) == 0 {
		e.Reason = "the broker wants a client certificate, or does not accept the TLS versions offered"
		e.Remedy = "set tls-cert and tls-key"
		return
	}
	e.Reason = "the broker refuses the client's certificate"
	e.Remedy = "have it signed by an authority that the broker trusts"
	leaf, err := x509.ParseCertificate(cfg.Certificates[0].Certificate[0])
	if err != nil {
		return
	}
	switch now := time.Now(); {
	case now.After(leaf.NotAfter):
		e.Reason = "the broker refuses the client's certificate, which has expired on " + leaf.NotAfter.UTC().Format(time.RFC3339)
		e.Remedy = "renew it"
	case now.Before(leaf.NotBefore):
		e.Reason = "the broker refuses the client's certificate, which is not valid before " + leaf.NotBefore.UTC().Format(time.RFC3339)
		e.Remedy = "check the clocks"
	default:
		e.Reason += fmt.Sprintf(" (%s, signed by %s)", leaf.Subject, leaf.Issuer)
	}
}

// Close ends the connection.
func (c *Conn) Close() { _ = c.conn.Close() }

func (c *Conn) apiVersions(ctx context.Context) (map[int16]int16, error) {
	req := kmsg.NewPtrApiVersionsRequest() // version 0: every broker knows it
	resp, err := c.send(ctx, req)
	if err != nil {
		return nil, err
	}
	r := resp.(*kmsg.ApiVersionsResponse)
	if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
		return nil, err
	}
	out := map[int16]int16{}
	for _, k := range r.ApiKeys {
		out[k.ApiKey] = k.MaxVersion
	}
	return out, nil
}

// Request sends a request in the highest version that both sides know and
// returns the answer. Errors inside the answer are the caller's.
func (c *Conn) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return c.requestUpTo(ctx, req, req.MaxVersion())
}

// maxAnswer bounds what is read of one answer: metadata of large clusters has
// a few MiB.
const maxAnswer = 64 << 20

func (c *Conn) send(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	deadline := time.Now().Add(c.timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := c.conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Now()) })
	defer stop()
	c.id++
	if _, err := c.conn.Write(c.format.AppendRequest(nil, req, c.id)); err != nil {
		return nil, err
	}
	var head [8]byte
	if n, err := io.ReadFull(c.conn, head[:]); err != nil {
		// A TLS alert has 7 bytes and begins with type 21 and version 3.
		if n >= 2 && head[0] == 0x15 && head[1] == 3 {
			return nil, errTLSAnswer
		}
		return nil, err
	}
	size := int64(int32(binary.BigEndian.Uint32(head[:])))
	if head[0] == 0x15 && head[1] == 3 {
		return nil, errTLSAnswer
	}
	if id := int32(binary.BigEndian.Uint32(head[4:])); size < 4 || size > maxAnswer || id != c.id {
		return nil, fmt.Errorf("the answer of %d bytes to request %d is not one of the Kafka protocol", size, c.id)
	}
	// The size is the other side's word: grow with what arrives.
	body, err := io.ReadAll(io.LimitReader(c.conn, size-4))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) < size-4 {
		return nil, io.ErrUnexpectedEOF
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && req.Key() != (&kmsg.ApiVersionsRequest{}).Key() {
		if body, err = skipTags(body); err != nil {
			return nil, err
		}
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("the answer to %s cannot be read: %w", kmsg.NameForKey(req.Key()), err)
	}
	return resp, nil
}

// skipTags removes the tagged fields of an answer's header.
func skipTags(b []byte) ([]byte, error) {
	next := func() (uint64, bool) {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, false
		}
		b = b[n:]
		return v, true
	}
	n, ok := next()
	for ; ok && n > 0; n-- {
		var size uint64
		if _, ok = next(); !ok {
			break
		}
		if size, ok = next(); ok {
			if ok = size <= uint64(len(b)); ok {
				b = b[size:]
			}
		}
	}
	if !ok {
		return nil, errors.New("the header of an answer is damaged")
	}
	return b, nil
}

// authenticate runs the SASL exchange.
func (c *Conn) authenticate(ctx context.Context, m sasl.Mechanism) error {
	fail := func(err error, reason, remedy string, refused bool) error {
		return &ReachError{Broker: c.broker, Stage: SASL, Err: err, Reason: reason, Remedy: remedy, Refused: refused}
	}
	const credentials = "check sasl-username, the password, and sasl-mechanism"
	hello := kmsg.NewPtrSASLHandshakeRequest()
	hello.Mechanism = m.Name()
	resp, err := c.Request(ctx, hello)
	if err != nil {
		if closed(err) {
			return fail(err, "the broker closes the connection when asked to authenticate", "the listener may not authenticate: leave out sasl-mechanism, or use another port", true)
		}
		return fail(err, "", "", false)
	}
	h := resp.(*kmsg.SASLHandshakeResponse)
	switch err := kerr.ErrorForCode(h.ErrorCode); {
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		reason := fmt.Sprintf("the broker does not offer %s", m.Name())
		remedy := "set sasl-mechanism"
		if len(h.SupportedMechanisms) > 0 {
			reason += ", but " + strings.Join(h.SupportedMechanisms, ", ")
			remedy += " to " + strings.ToLower(strings.Join(h.SupportedMechanisms, " or "))
		}
		return fail(err, reason, remedy, true)
	case errors.Is(err, kerr.IllegalSaslState):
		return fail(err, "the listener does not authenticate", "leave out sasl-mechanism, or use the port of the SASL listener", true)
	case err != nil:
		return fail(err, "", "", false)
	}
	sess, out, err := m.Start(ctx)
	if err != nil {
		return fail(err, "the credentials cannot be used", credentials, true)
	}
	for done := false; !done; {
		req := kmsg.NewPtrSASLAuthenticateRequest()
		req.SASLAuthBytes = out
		resp, err := c.Request(ctx, req)
		if err != nil {
			if closed(err) {
				return fail(err, "the broker refuses user name or password (it closes the connection)", credentials, true)
			}
			return fail(err, "", "", false)
		}
		a := resp.(*kmsg.SASLAuthenticateResponse)
		if err := kerr.ErrorForCode(a.ErrorCode); err != nil {
			// Brokers do not say which of the two is wrong, and their message may
			// be anything: it is left out.
			return fail(err, "the broker refuses user name or password", credentials, errors.Is(err, kerr.SaslAuthenticationFailed))
		}
		if done, out, err = sess.Next(ctx, a.SASLAuthBytes); err != nil {
			return fail(err, "the broker does not prove that it knows the password", credentials, true)
		}
	}
	return nil
}

// Diagnose says why no broker of the configuration can be reached, or returns
// nil if one can.
func Diagnose(ctx context.Context, cfg Config) error {
	var first error
	for _, addr := range cfg.Brokers {
		c, err := Dial(ctx, cfg, addr, nil)
		if err == nil {
			c.Close()
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// refused returns what makes waiting for the cluster pointless, or nil.
func (c *client) refused(ctx context.Context) error {
	err := Diagnose(ctx, c.cfg)
	var e *ReachError
	if errors.As(err, &e) && e.Refused {
		return err
	}
	return nil
}
