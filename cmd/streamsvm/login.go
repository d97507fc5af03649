package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/reach"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// loginFlags say how to authenticate.
type loginFlags struct {
	mechanism, username string
	tokenURL, clientID  string
	scopes              []string
	extensions          cli.Pairs
}

var mechanisms = []string{"none", "plain", "scram-sha-256", "scram-sha-512", "oauthbearer", "aws-msk-iam"}

func (o *loginFlags) define(f *cli.Flags) {
	o.extensions = cli.Pairs{}
	f.Choice(&o.mechanism, "sasl-mechanism", "none", mechanisms, "how to authenticate")
	f.StringVar(&o.username, "sasl-username", "", "user `NAME`")
	f.Secret("sasl-password", "the password")
	f.Secret("oauth-token", "the token of oauthbearer, and is read again for every connection")
	f.StringVar(&o.tokenURL, "oauth-token-url", "", "oauthbearer: `URL` that gives tokens for client credentials")
	f.StringVar(&o.clientID, "oauth-client-id", "", "oauthbearer: `ID` of this client at oauth-token-url")
	f.Secret("oauth-client-secret", "the client's secret at oauth-token-url")
	f.StringSliceVar(&o.scopes, "oauth-scopes", nil, "oauthbearer: `SCOPES` to ask oauth-token-url for")
	f.Var(o.extensions, "oauth-extensions", "oauthbearer: SASL extension to send with the token, repeatable")
	f.AlsoKnown("sasl-username", "user")
	f.AlsoKnown("oauth-token-url", "token-endpoint", "sasl-oauthbearer-token-endpoint-url")
}

// oauthFlags are the flags for oauthbearer alone.
var oauthFlags = []string{"oauth-token", "oauth-token-file", "oauth-token-url", "oauth-client-id", "oauth-client-secret", "oauth-client-secret-file", "oauth-scopes"}

// login returns the mechanism, nil for none.
func (o *kafkaFlags) login(c *cli.Call, cfg kafkaio.Config) (sasl.Mechanism, error) {
	if o.mechanism != "oauthbearer" {
		for _, name := range oauthFlags {
			if c.Given(name) {
				return nil, c.Bad(name, errors.New("it needs --sasl-mechanism oauthbearer"))
			}
		}
		if len(o.extensions) > 0 {
			return nil, c.Bad("oauth-extensions", errors.New("it needs --sasl-mechanism oauthbearer"))
		}
	}
	switch o.mechanism {
	case "none":
		if o.username != "" {
			return nil, c.Bad("sasl-username", errors.New("a user is given, but no --sasl-mechanism"))
		}
		return nil, nil
	case "oauthbearer":
		tokens, err := o.tokens(c, cfg)
		if err != nil {
			return nil, err
		}
		for k, v := range o.extensions {
			// RFC 7628, section 3.1; auth is the token's own.
			if !extensionName.MatchString(k) || k == "auth" || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' }) {
				return nil, c.Bad("oauth-extensions", fmt.Errorf("%q cannot be sent", k))
			}
		}
		return kafkaio.OAuthBearer(tokens, o.extensions), nil
	case "aws-msk-iam":
		return o.aws(c)
	}
	secret, err := c.Secret("sasl-password")
	if err != nil {
		return nil, err
	}
	if o.username == "" {
		return nil, c.Bad("sasl-username", fmt.Errorf("mechanism %s needs a user name", o.mechanism))
	}
	switch o.mechanism {
	case "plain":
		return plain.Mechanism{Username: o.username, Password: secret}, nil
	case "scram-sha-256":
		return kafkaio.ScramSHA256(o.username, secret), nil
	default:
		return kafkaio.ScramSHA512(o.username, secret), nil
	}
}

var extensionName = regexp.MustCompile(`^[A-Za-z]+$`)

// tokens returns the source of tokens for oauthbearer.
func (o *kafkaFlags) tokens(c *cli.Call, cfg kafkaio.Config) (oauth2.TokenSource, error) {
	if o.tokenURL == "" {
		if o.clientID != "" || len(o.scopes) > 0 {
			return nil, c.Bad("oauth-token-url", errors.New("it is missing, and client credentials need it"))
		}
		token, err := c.Secret("oauth-token")
		if err != nil {
			return nil, err
		}
		if file := c.SecretFile("oauth-token"); file != "" {
			return reach.TokenFile(file), nil
		}
		return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token}), nil
	}
	if u, err := url.Parse(o.tokenURL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return nil, c.Bad("oauth-token-url", errors.New("it is not the URL of a token endpoint, such as https://login.example.com/token"))
	}
	if o.clientID == "" {
		return nil, c.Bad("oauth-client-id", errors.New("client credentials need it"))
	}
	secret, err := c.Secret("oauth-client-secret")
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if cfg.TLS != nil && cfg.TLS.RootCAs != nil {
		// Its certificate authority may be the brokers', or one of the system's.
		transport.TLSClientConfig = cfg.TLS.Clone()
		transport.TLSClientConfig.Certificates = nil
		if pool, err := x509.SystemCertPool(); err == nil {
			if pem, err := os.ReadFile(o.ca); err == nil {
				pool.AppendCertsFromPEM(pem)
			}
			transport.TLSClientConfig.RootCAs = pool
		}
	}
	ctx := context.WithValue(context.Background(), oauth2.HTTPClient, &http.Client{Transport: transport, Timeout: 10 * time.Second})
	credentials := clientcredentials.Config{ClientID: o.clientID, ClientSecret: secret, TokenURL: o.tokenURL, Scopes: slices.Clone(o.scopes)}
	return credentials.TokenSource(ctx), nil
}

// mskHost matches the address of a broker of Amazon MSK.
var mskHost = regexp.MustCompile(`\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?:`)

// awsTokens returns a source of tokens for Amazon MSK in a region; nil without contrib.
var awsTokens func(region string) oauth2.TokenSource

// aws returns the mechanism for Amazon MSK.
func (o *kafkaFlags) aws(c *cli.Call) (sasl.Mechanism, error) {
	if awsTokens == nil {
		return nil, c.Bad("sasl-mechanism", errors.New("this program has no aws-msk-iam: it was built with -tags core"))
	}
	region := cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	if m := mskHost.FindStringSubmatch(strings.Join(o.brokers, " ")); region == "" && m != nil {
		region = m[1]
	}
	if region == "" {
		return nil, c.Bad("sasl-mechanism", errors.New("aws-msk-iam needs the region: set AWS_REGION"))
	}
	return kafkaio.OAuthBearer(oauth2.ReuseTokenSourceWithExpiry(nil, awsTokens(region), time.Minute), nil), nil
}
