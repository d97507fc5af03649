package reach

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The steps on the way to a broker, in their order.
const (
	Resolve  = "resolve"  // the name has an address
	Connect  = "connect"  // something listens there
	TLS      = "tls"      // both sides trust each other's certificates
	Protocol = "protocol" // it is a broker of Kafka
	SASL     = "sasl"     // it accepts the credentials
	Use      = "use"      // it answers requests
)

var steps = []string{Resolve, Connect, TLS, Protocol, SASL, Use}

// Error says at which step a broker cannot be reached, and why. It contains no
// secrets.
type Error struct {
	Broker string
	Step   string
	// Reason says in words what is wrong, Remedy what to do about it; both may
	// be empty.
	Reason, Remedy string
	// Refused says that the two sides disagree, which waiting will not change.
	Refused bool
	Err     error
}

func (e *Error) Error() string {
	text := e.Text()
	if e.Remedy != "" {
		text += ": " + e.Remedy
	}
	return fmt.Sprintf("kafka: broker %s: %s: %s", e.Broker, e.Step, text)
}

// Text returns the reason, or the cause if there is none.
func (e *Error) Text() string {
	if e.Reason != "" {
		return e.Reason
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// explain says what err means at the step that the probe has reached.
func (p *probe) explain(ctx context.Context, err error) *Error {
	p.mu.Lock()
	e := &Error{Broker: p.addr, Step: p.step, Err: err}
	key := kmsg.Key(p.key)
	p.mu.Unlock()
	var ne net.Error
	late := ctx.Err() != nil || errors.As(err, &ne) && ne.Timeout()
	// With TLS 1.3 the broker accepts or refuses our certificate with its first
	// answer.
	if e.Step == Protocol && p.TLS != nil && strings.Contains(err.Error(), "remote error: tls:") {
		e.Step = TLS
	}
	switch e.Step {
	case Resolve:
		host, _, _ := net.SplitHostPort(p.addr)
		e.Reason = fmt.Sprintf("the name %s cannot be resolved", host)
		var dns *net.DNSError
		if errors.As(err, &dns) && dns.IsNotFound {
			e.Remedy = "check the spelling, and that this machine uses the cluster's name server"
		}
	case Connect:
		e.Remedy = "check the port, that the broker runs, and firewalls between"
		if late {
			e.Reason = "nothing answers"
		} else if strings.Contains(err.Error(), "refused") {
			e.Reason = "nothing listens there (connection refused)"
		}
	case TLS:
		e.explainTLS(p.TLS, late)
	case Protocol:
		switch {
		case late:
			e.Reason = "something listens there, but it does not answer as a broker"
			e.Remedy = "check the port; if it expects TLS, set tls"
		case strings.Contains(err.Error(), "tls alert") && p.TLS == nil:
			e.Reason, e.Remedy, e.Refused = "the port expects TLS, but connections are not encrypted", "set tls: true", true
		case closed(err) && p.TLS == nil:
			// A broker that is starting or stopping does the same, so waiting may help.
			e.Reason, e.Remedy = "the connection is closed at once", "if the port expects TLS, set tls: true"
		}
	case SASL:
		p.explainSASL(ctx, e, key == kmsg.SASLHandshake)
	case Use:
		if closed(err) && p.SASL == nil {
			e.Reason, e.Remedy, e.Refused = "the broker closes the connection at the first request without authentication", "it wants SASL: set sasl-mechanism, sasl-username and sasl-password-file", true
		}
	}
	return e
}

// closed reports whether the other side has ended the connection.
func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "connection reset")
}

func (p *probe) explainSASL(ctx context.Context, e *Error, handshake bool) {
	credentials, refused := "check sasl-username, the password, and sasl-mechanism", "the broker refuses user name or password"
	if o, ok := p.Config.SASL.(OAuth); ok {
		credentials, refused = "who issues it, for whom, and until when must be what the broker accepts", "the broker refuses the token"+o.about()
	}
	var own *errCredentials
	var token *TokenError
	var refusal *kerr.Error
	switch {
	case errors.As(e.Err, &token):
		e.Reason, e.Remedy, e.Refused = token.Reason, token.Remedy, token.Refused
	case errors.As(e.Err, &own):
		e.Reason, e.Remedy, e.Refused = own.reason, credentials, true
	case errors.Is(e.Err, kerr.UnsupportedSaslMechanism):
		e.Reason, e.Remedy, e.Refused = "the broker does not offer "+p.Config.SASL.Name(), "set sasl-mechanism", true
		if have := p.supported(ctx); len(have) > 0 {
			e.Reason += ", but " + strings.Join(have, ", ")
			e.Remedy += " to " + strings.ToLower(strings.Join(have, " or "))
		}
	case errors.Is(e.Err, kerr.IllegalSaslState):
		e.Reason, e.Remedy, e.Refused = "the listener does not authenticate", "leave out sasl-mechanism, or use the port of the SASL listener", true
	case errors.As(e.Err, &refusal) && !handshake:
		// Brokers do not say whether the user name or the password is wrong, and
		// their message may be anything: it is left out.
		e.Reason, e.Remedy, e.Refused = refused, credentials, errors.Is(refusal, kerr.SaslAuthenticationFailed)
	case closed(e.Err) && handshake:
		e.Reason, e.Remedy, e.Refused = "the broker closes the connection when asked to authenticate", "the listener may not authenticate: leave out sasl-mechanism, or use another port", true
	case closed(e.Err):
		e.Reason, e.Remedy, e.Refused = refused+" (it closes the connection)", credentials, true
	}
}

// explainTLS says why a handshake has failed.
func (e *Error) explainTLS(cfg *tls.Config, late bool) {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var header tls.RecordHeaderError
	e.Refused = true
	switch err := e.Err; {
	case errors.As(err, &authority):
		e.Reason = "the broker's certificate is signed by an authority that is not trusted"
		if authority.Cert != nil {
			e.Reason += " (" + authority.Cert.Issuer.String() + ")"
		}
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
		e.explainCertificate(cfg)
	default:
		// A network failure, or a broker that stops during the handshake.
		e.Refused = false
		e.Remedy = "if the port does not speak TLS, leave out tls"
		if late {
			e.Reason = "nothing answers the handshake"
		} else if closed(err) {
			e.Reason = "the connection is closed during the handshake"
		}
	}
}

func day(t time.Time) string { return t.UTC().Format(time.RFC3339) }

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

// explainCertificate says why a broker may refuse the client's certificate, or its
// absence.
func (e *Error) explainCertificate(cfg *tls.Config) {
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
		e.Reason += ", which has expired on " + day(leaf.NotAfter)
		e.Remedy = "renew it"
	case now.Before(leaf.NotBefore):
		e.Reason += ", which is not valid before " + day(leaf.NotBefore)
		e.Remedy = "check the clocks"
	default:
		e.Reason += fmt.Sprintf(" (%s, signed by %s)", leaf.Subject, leaf.Issuer)
	}
}
