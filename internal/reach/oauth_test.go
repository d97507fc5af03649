package reach

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

func TestOAuthMessages(t *testing.T) {
	o := OAuth{Source: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "a.b-c~+/="}), Extensions: map[string]string{"pool": "p", "cluster": "lkc 1"}}
	s, first, err := o.Start(t.Context())
	if want := "n,,\x01auth=Bearer a.b-c~+/=\x01cluster=lkc 1\x01pool=p\x01\x01"; err != nil || string(first) != want {
		t.Fatalf("%q, %v; want %q", first, err, want)
	}
	if done, out, err := s.Next(t.Context(), nil); !done || out != nil || err != nil {
		t.Errorf("content: %v %q %v", done, out, err)
	}
	// RFC 7628, section 3.2.3.
	if done, out, err := s.Next(t.Context(), []byte(`{"status":"invalid_token"}`)); done || string(out) != "\x01" || err != nil {
		t.Errorf("refused: %v %q %v", done, out, err)
	}
	for _, bad := range []string{"", "a b", "a\x01auth=Bearer b", "a\nb", "ä"} {
		o.Source = oauth2.StaticTokenSource(&oauth2.Token{AccessToken: bad})
		var e *TokenError
		if _, _, err := o.Start(t.Context()); !errors.As(err, &e) || !e.Refused || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A file is read again, and being away is not for ever.
func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	o := OAuth{Source: TokenFile(path)}
	var e *TokenError
	if _, _, err := o.Start(t.Context()); !errors.As(err, &e) || e.Refused || !errors.Is(err, net.ErrClosed) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for _, token := range []string{"first", "second"} {
		if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, first, err := o.Start(t.Context()); err != nil || !strings.Contains(string(first), "Bearer "+token+"\x01") {
			t.Errorf("%q, %v", first, err)
		}
	}
}

// What an endpoint does is said without what it says; only some of it is final.
func TestTokenEndpoint(t *testing.T) {
	status, body := 200, `{"access_token":"t1","token_type":"Bearer","expires_in":3600}`
	asked := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if id, pass, _ := r.BasicAuth(); id != "me" || pass != "my-secret" || r.FormValue("grant_type") != "client_credentials" {
			t.Errorf("asked as %s %v", id, r.Form)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	source := func() oauth2.TokenSource {
		return (&clientcredentials.Config{ClientID: "me", ClientSecret: "my-secret", TokenURL: srv.URL, AuthStyle: oauth2.AuthStyleInHeader}).TokenSource(context.Background())
	}
	o := OAuth{Source: source()}
	for range 2 {
		if _, first, err := o.Start(t.Context()); err != nil || !strings.Contains(string(first), "Bearer t1\x01") {
			t.Fatalf("%q, %v", first, err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times for a token that lives for an hour", asked)
	}
	for _, c := range []struct {
		status  int
		body    string
		want    string
		refused bool
	}{
		{401, `{"error":"invalid_client","error_description":"my-secret is wrong"}`, "answers 401 invalid_client", true},
		{400, `{"error":"my-secret"}`, "answers 400", true},
		{429, `my-secret`, "answers 429", false},
		{503, `my-secret`, "answers 503", false},
		{200, `{"access_token":""}`, "there is no token", false},
	} {
		status, body = c.status, c.body
		_, _, err := OAuth{Source: source()}.Start(t.Context())
		var e *TokenError
		if !errors.As(err, &e) || e.Refused != c.refused || !strings.Contains(err.Error(), c.want) || errors.Is(err, net.ErrClosed) == c.refused {
			t.Errorf("%d: %v", c.status, err)
		}
		if strings.Contains(err.Error()+e.Remedy, "my-secret") {
			t.Errorf("the secret is told: %v", err)
		}
	}
	srv.Close()
	_, _, err := OAuth{Source: source()}.Start(t.Context())
	var e *TokenError
	if !errors.As(err, &e) || e.Refused || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("no endpoint: %v", err)
	}
}

func TestAboutToken(t *testing.T) {
	jwt := func(claims string) string {
		e := base64.RawURLEncoding.EncodeToString
		return e([]byte(`{"alg":"none"}`)) + "." + e([]byte(claims)) + ".sig"
	}
	for _, c := range [][2]string{
		{"opaque", ""},
		{jwt(`{"sub":"trainer","exp":7258118400}`), ` of "trainer", valid until 2200-01-01T00:00:00Z`},
		{jwt(`{"exp":946684800.5}`), ", which has expired at 2000-01-01T00:00:00Z"},
		{jwt(`{"sub":7}`), ""},
		{jwt(`no`), ""},
		{"a.b.c", ""},
	} {
		o := OAuth{Source: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: c[0]})}
		if got := o.about(); got != c[1] {
			t.Errorf("%s: %q, want %q", c[0], got, c[1])
		}
	}
	p := &probe{Config: Config{SASL: OAuth{Source: oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "t", Expiry: time.Unix(1, 0)})}}}
	e := &Error{Step: SASL, Err: kerr.SaslAuthenticationFailed}
	if p.explainSASL(t.Context(), e, false); !e.Refused || e.Reason != "the broker refuses the token, which has expired at 1970-01-01T00:00:01Z" {
		t.Errorf("%+v", e)
	}
}
