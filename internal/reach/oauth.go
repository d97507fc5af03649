package reach

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"golang.org/x/oauth2"
)

// OAuth authenticates by OAUTHBEARER (RFC 7628). Every new connection, and every session
// that a broker wants renewed, gets a token from Source. So a Source must be quick when
// it has a token that is still valid.
type OAuth struct {
	Source oauth2.TokenSource
	// Extensions are sent with the token, to brokers that want them.
	Extensions map[string]string
}

var _ sasl.Mechanism = OAuth{}

// Name implements sasl.Mechanism.
func (OAuth) Name() string { return "OAUTHBEARER" }

// Start implements sasl.Mechanism. The error is a *TokenError.
func (o OAuth) Start(context.Context) (sasl.StateMachine, []byte, error) {
	t, err := o.Source.Token()
	if err != nil {
		return nil, nil, tokenError(err)
	}
	if t.AccessToken == "" || strings.ContainsFunc(t.AccessToken, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, nil, &TokenError{Reason: "the token is empty, or holds what no token may", Refused: true, Err: errors.New("bad token")}
	}
	var b strings.Builder
	b.WriteString("n,,\x01auth=Bearer " + t.AccessToken + "\x01")
	for _, k := range slices.Sorted(maps.Keys(o.Extensions)) {
		b.WriteString(k + "=" + o.Extensions[k] + "\x01")
	}
	b.WriteString("\x01")
	return oauthSession{}, []byte(b.String()), nil
}

type oauthSession struct{}

// Next implements sasl.StateMachine. An empty message from the broker means success.
// Before it refuses, it says why and expects an answer.
func (oauthSession) Next(_ context.Context, challenge []byte) (bool, []byte, error) {
	if len(challenge) == 0 {
		return true, nil, nil
	}
	return false, []byte{1}, nil
}

// about says whose token it is, and until when it is valid, without showing it. Only JSON
// Web Tokens contain the owner; nothing here relies on these claims.
func (o OAuth) about() string {
	t, err := o.Source.Token()
	if err != nil {
		return ""
	}
	var claims struct {
		Subject string  `json:"sub"`
		Expires float64 `json:"exp"`
	}
	if parts := strings.Split(t.AccessToken, "."); len(parts) == 3 {
		if text, err := base64.RawURLEncoding.DecodeString(parts[1]); err == nil {
			_ = json.Unmarshal(text, &claims)
		}
	}
	if claims.Expires == 0 && !t.Expiry.IsZero() {
		claims.Expires = float64(t.Expiry.Unix())
	}
	var text string
	if claims.Subject != "" {
		text = fmt.Sprintf(" of %.100q", claims.Subject)
	}
	if claims.Expires > 0 && claims.Expires < 1e11 { // before the year 5138
		end := time.Unix(int64(claims.Expires), 0)
		if end.Before(time.Now()) {
			text += ", which has expired at " + day(end)
		} else {
			text += ", valid until " + day(end)
		}
	}
	return text
}

// TokenError says why there is no token. It contains no secrets.
type TokenError struct {
	Reason, Remedy string
	// Refused says that waiting will not help.
	Refused bool
	Err     error
}

func (e *TokenError) Error() string { return "oauth: " + e.Reason }

// Unwrap lets a client in use try again, as after a closed connection, if waiting may
// help.
func (e *TokenError) Unwrap() []error {
	if e.Refused {
		return []error{e.Err}
	}
	return []error{e.Err, net.ErrClosed}
}

// tokenError says why a source has no token. The answer of an endpoint may contain
// anything: only its codes are used.
func tokenError(err error) *TokenError {
	var own *TokenError
	var answer *oauth2.RetrieveError
	var transport *url.Error
	const check = "check oauth-token-url, oauth-client-id, oauth-client-secret and oauth-scopes"
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &answer) && answer.Response != nil:
		status := answer.Response.StatusCode
		reason := fmt.Sprintf("the token endpoint answers %d", status)
		switch answer.ErrorCode {
		case "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope":
			reason += " " + answer.ErrorCode
		}
		return &TokenError{Reason: reason, Remedy: check, Refused: status >= 400 && status < 500 && status != 429, Err: errors.New(reason)}
	case errors.As(err, &transport):
		return &TokenError{Reason: "the token endpoint cannot be reached: " + transport.Err.Error(), Remedy: "check oauth-token-url, firewalls between, and tls-ca", Err: transport.Err}
	}
	return &TokenError{Reason: "there is no token", Remedy: check, Err: err}
}

// TokenFile is a source of the token currently in a file. Another program renews the
// token in the file.
type TokenFile string

// Token implements oauth2.TokenSource.
func (f TokenFile) Token() (*oauth2.Token, error) {
	data, err := os.ReadFile(string(f))
	text := strings.TrimSpace(string(data))
	if err == nil && text == "" {
		err = fmt.Errorf("%s is empty", string(f))
	}
	if err != nil {
		return nil, &TokenError{Reason: err.Error(), Remedy: "check oauth-token-file, and who writes it", Err: err}
	}
	return &oauth2.Token{AccessToken: text}, nil
}
