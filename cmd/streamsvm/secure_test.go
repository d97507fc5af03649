package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
)

// way is one way to connect.
type way struct {
	name, listener, principal string
	args                      []string
}

// ways returns every mechanism with and without TLS.
func ways(s *kafkatest.Secure) []way {
	out := []way{
		{"tls", "TLS", "", []string{"--tls", "--tls-ca", s.CA}},
		{"client certificate", "MTLS", "User:CN=trainer", []string{"--tls", "--tls-ca", s.CA, "--tls-cert", s.Cert, "--tls-key", s.Key}},
	}
	for _, m := range kafkatest.Mechanisms {
		login := []string{"--sasl-mechanism", m, "--sasl-username", "trainer", "--sasl-password-file", s.PasswordFile}
		out = append(out, way{m, "SASL", "User:trainer", login},
			way{m + " over tls", "SASLTLS", "User:trainer", append([]string{"--tls", "--tls-ca", s.CA}, login...)})
	}
	if s.Real { // the embedded broker knows no tokens
		issuer, secret := tokenEndpoint(s.TB, time.Hour)
		file := filepath.Join(s.TB.TempDir(), "token")
		write(s.TB, file, unsigned("trainer", time.Hour))
		for name, login := range map[string][]string{
			"token file":         {"--oauth-token-file", file, "--oauth-extensions", "logicalCluster=lkc-1"},
			"client credentials": {"--oauth-token-url", issuer, "--oauth-client-id", "trainer", "--oauth-client-secret-file", secret, "--oauth-scopes", "kafka"},
		} {
			login = append([]string{"--sasl-mechanism", "oauthbearer"}, login...)
			out = append(out, way{name, "OAUTH", "User:trainer", login},
				way{name + " over tls", "OAUTHTLS", "User:trainer", append([]string{"--tls", "--tls-ca", s.CA}, login...)})
		}
	}
	for i := range out {
		out[i].args = append(out[i].args, "--brokers", s.Listeners[out[i].listener])
	}
	return out
}

// tokenHead is what every token of unsigned begins with.
var tokenHead = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))

// unsigned returns a token that Apache Kafka's validator for tests accepts.
func unsigned(user string, lives time.Duration) string {
	now := time.Now()
	// Seconds are rounded down: a token must not be of the future.
	claims := fmt.Sprintf(`{"sub":%q,"iat":%d,"exp":%d}`, user, now.Add(min(lives, 0)).Unix()-1, now.Add(lives).Unix())
	return tokenHead + "." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + "."
}

// tokenEndpoint starts an issuer of such tokens for the client trainer, and
// returns its URL and the file with the client's secret.
func tokenEndpoint(tb testing.TB, lives time.Duration) (url, secretFile string) {
	const secret = "not-for-anybody-0815"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if id, pass, _ := r.BasicAuth(); id != "trainer" || pass != secret || r.FormValue("grant_type") != "client_credentials" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_client"}`)
			return
		}
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%d}`, unsigned("trainer", lives), int(lives.Seconds()))
	}))
	tb.Cleanup(srv.Close)
	secretFile = filepath.Join(tb.TempDir(), "client-secret")
	write(tb, secretFile, secret)
	return srv.URL, secretFile
}

// eachCluster runs a test on the embedded broker and on Apache Kafka.
func eachCluster(t *testing.T, run func(t *testing.T, s *kafkatest.Secure)) {
	if os.Getenv("STREAMSVM_TEST_SECURE") == "" {
		t.Parallel() // otherwise they share a cluster, and its permissions
	}
	t.Run("embedded", func(t *testing.T) { run(t, kafkatest.NewSecure(t, false)) })
	t.Run("Apache Kafka", func(t *testing.T) { run(t, kafkatest.NewSecure(t, true)) })
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestSecureWays: with exactly the permissions that acls prints, every way to
// connect carries the whole path: produce, doctor, train with checkpoint, model
// topic, dead letters and group, subscribe.
func TestSecureWays(t *testing.T) {
	eachCluster(t, func(t *testing.T, s *kafkatest.Secure) {
		for _, w := range ways(s) {
			t.Run(w.name, func(t *testing.T) {
				t.Parallel() // each waits for brokers rather than computes
				base := strings.ToLower(strings.ReplaceAll(fmt.Sprintf("secure-%s-%d", w.name, time.Now().UnixNano()), " ", "-"))
				topic, models := base+"-examples", base+"-models"
				dir := t.TempDir()
				settings := append([]string{"--topics", topic, "--model-topic", models, "--dlq", "--group", base, "--tolerance", "data"}, w.args...)
				if w.principal != "" {
					s.Allow(w.listener, must(t, append([]string{"config", "acls", "train", "--principal", w.principal, "--"}, settings...)...))
					s.Allow(w.listener, must(t, append([]string{"config", "acls", "predict", "--principal", w.principal, "--", "--predictions-topic", topic, "--topics", topic}, w.args...)...))
				}
				must(t, append([]string{"generate", "moons", "--count", "300", "--topic", topic, "--partitions", "1", "-q"}, w.args...)...)
				bad := filepath.Join(dir, "bad.csv")
				write(t, bad, "oops\n")
				must(t, append([]string{"copy", bad, "--topic", topic, "-q", "--codec", "libsvm"}, w.args...)...)
				service := append(append([]string{"--checkpoint", filepath.Join(dir, "state")}, settings...), "--learner", "sbp", "--tune=off", "--warmup", "50")
				must(t, append([]string{"doctor"}, service...)...)
				must(t, append([]string{"train", "--dry-run"}, service...)...)
				must(t, append([]string{"train", "--until-end", "-q"}, service...)...)
				if m := newest(t, filepath.Join(dir, "state")).Meta; m["learned"] != "300" || m["dead"] != "1" {
					t.Errorf("fates are %v", m)
				}
				u := decode[updateLine](t, must(t, append([]string{"model", "follow", "--model-topic", models, "--until", "1", "--json"}, w.args...)...))
				if u.Examples != 301 && u.Examples != 300 {
					t.Errorf("the model has seen %d examples", u.Examples)
				}
				// Who trains may not promote.
				promote := append([]string{"model", "promote", "--model-topic", models}, w.args...)
				if w.principal != "" {
					// The embedded broker does not know certificates' names.
					if code, _, text := streamsvm(t.Context(), promote...); w.listener != "MTLS" && (code != int(cli.Unavailable) || !strings.Contains(text, "Write on it must be granted")) {
						t.Errorf("promoted without a grant: exit code %d: %s", code, text)
					}
					s.Allow(w.listener, must(t, append([]string{"config", "acls", "model", "--principal", w.principal, "--", "--model-topic", models}, w.args...)...))
				}
				must(t, promote...)
			})
		}
	})
}

// TestSecureRefusals: what is wrong is said, at once, with exit code 69 and
// without the password.
func TestSecureRefusals(t *testing.T) {
	eachCluster(t, func(t *testing.T, s *kafkatest.Secure) {
		wrong := filepath.Join(t.TempDir(), "wrong")
		write(t, wrong, "wrong-"+s.Password)
		expired := filepath.Join(t.TempDir(), "expired")
		write(t, expired, unsigned("trainer", -time.Hour))
		issuer, _ := tokenEndpoint(t, time.Hour)
		topic := fmt.Sprintf("refused-%d", time.Now().UnixNano())
		s.CreateTopic("SASL", topic)
		login := func(user, mechanism, file string) []string {
			return []string{"--sasl-mechanism", mechanism, "--sasl-username", user, "--sasl-password-file", file}
		}
		cert := func(cert, key string) []string {
			return []string{"--tls", "--tls-ca", s.CA, "--tls-cert", cert, "--tls-key", key}
		}
		for _, c := range []struct {
			name, listener string
			args           []string
			want           string
		}{
			{"wrong password, plain", "SASL", login("trainer", "plain", wrong), "refuses user name or password"},
			{"wrong password, scram-sha-256", "SASL", login("trainer", "scram-sha-256", wrong), "refuses user name or password"},
			{"wrong password, scram-sha-512", "SASL", login("trainer", "scram-sha-512", wrong), "refuses user name or password"},
			{"unknown user", "SASL", login("stranger", "plain", s.PasswordFile), "refuses user name or password"},
			{"no authentication", "SASL", nil, "it wants SASL"},
			{"untrusted authority", "TLS", []string{"--tls", "--tls-ca", s.OtherCA}, "signed by an authority that is not trusted (CN=streamsvm ca)"},
			{"expired certificate of the broker", "EXPIRED", []string{"--tls", "--tls-ca", s.CA}, "the broker's certificate has expired on "},
			{"no client certificate", "MTLS", []string{"--tls", "--tls-ca", s.CA}, "the broker wants a client certificate"},
			{"expired client certificate", "MTLS", cert(s.ExpiredCert, s.ExpiredKey), "refuses the client's certificate, which has expired on "},
			{"expired token", "OAUTH", []string{"--sasl-mechanism", "oauthbearer", "--oauth-token-file", expired}, "refuses the token of \"trainer\", which has expired at "},
			{"another mechanism", "OAUTH", login("trainer", "plain", s.PasswordFile), "Unsupported SASL Mechanism"},
			{"token endpoint refuses", "OAUTH", []string{"--sasl-mechanism", "oauthbearer", "--oauth-token-url", issuer, "--oauth-client-id", "trainer", "--oauth-client-secret-file", wrong}, "the token endpoint answers 401 invalid_client"},
			{"unauthorised topic", "SASL", login("nobody", "plain", s.PasswordFile), "topic " + topic},
		} {
			t.Run(c.name, func(t *testing.T) {
				if c.listener == "OAUTH" && !s.Real {
					t.Skip("the embedded broker knows no tokens")
				}
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				args := append([]string{"train", "--topics", topic, "--until-end", "--log-level", "debug", "--brokers", s.Listeners[c.listener]}, c.args...)
				code, out, errText := streamsvm(ctx, args...)
				if code != int(cli.Unavailable) || !strings.Contains(errText, c.want) {
					t.Errorf("exit code %d, %s; want %q", code, errText, c.want)
				}
				if c.name == "unauthorised topic" && !strings.Contains(strings.ToLower(errText), "authoriz") {
					t.Errorf("%s does not say that it is about permissions", errText)
				}
				if strings.Contains(out+errText, s.Password) || strings.Contains(out+errText, tokenHead) {
					t.Errorf("the password or a token is told: %s", errText)
				}
			})
		}
	})
}

var listening = regexp.MustCompile(`msg=listening addr=(\S+)`)

// TestNoSecret looks for the password in everything that comes out of a run:
// logs at their most talkative, metrics, status page, health, profile, files,
// the model topic, and what shows the configuration.
func TestNoSecret(t *testing.T) {
	eachCluster(t, func(t *testing.T, s *kafkatest.Secure) {
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		defer stop()
		topic := fmt.Sprintf("nosecret-%d", time.Now().UnixNano())
		dir := t.TempDir()
		for _, model := range []string{"plain", "scram-sha-512", "scram-sha-256"} {
			s.Allow("SASL", must(t, "config", "acls", "--principal", "User:trainer", "--", "--topics", topic, "--model-topic", topic+"-models", "--model-name", model, "--group", topic))
		}
		s.Allow("SASL", must(t, "config", "acls", "predict", "--principal", "User:trainer", "--", "--predictions-topic", topic))
		for _, c := range [][2]string{{"plain", "sasl-password: " + s.Password}, {"scram-sha-512", "sasl-password: ${SECRET}"}, {"scram-sha-256", "sasl-password-file: " + s.PasswordFile}} {
			mechanism, from := c[0], c[1]
			state := filepath.Join(dir, mechanism)
			config := filepath.Join(t.TempDir(), "c.yaml")
			text := fmt.Sprintf("brokers: %[1]s\nsasl-mechanism: %[2]s\nsasl-username: trainer\n%[3]s\nlog-level: debug\nmodel-name: %[2]s\ncheckpoint: %[4]s\ntopics: %[5]s\nmodel-topic: %[5]s-models\ngroup: %[5]s\n",
				s.Listeners["SASL"], mechanism, from, state, topic)
			write(t, config, text)
			env := func(k string) (string, bool) {
				if k == "SECRET" {
					return s.Password, true
				}
				return "", false
			}
			var all buffer
			call := func(ctx context.Context, args ...string) int {
				return program().Main(ctx, args, cli.Stdio{In: strings.NewReader(""), Out: &all, Err: &all, Getenv: env})
			}
			settings := []string{"--config", config, "--learner", "sbp", "--tune=off", "--warmup", "50"}
			for _, args := range [][]string{
				{"generate", "moons", "--count", "200", "--topic", topic, "--config", config, "--partitions", "1"},
				{"config", "show", "--config", config}, {"config", "lint", config}, append([]string{"doctor"}, settings...), append([]string{"config", "acls", "--"}, settings...),
			} {
				if code := call(ctx, args...); code != 0 {
					t.Fatalf("%v: exit code %d\n%s", args, code, all.String())
				}
			}
			running, cancel := context.WithCancel(ctx)
			code, done := 0, make(chan struct{})
			go func() {
				defer close(done)
				code = call(running, append([]string{"train", "--listen", "127.0.0.1:0", "--pprof", "--checkpoint-every", "100", "--record", state + ".ssr"}, settings...)...)
			}()
			if !waitCheckpoints(t, state, 2, done) { // the first one is before any record
				t.Fatalf("it ends: exit code %d\n%s", code, all.String())
			}
			m := listening.FindStringSubmatch(all.String())
			if m == nil {
				t.Fatalf("it does not listen:\n%s", all.String())
			}
			for _, path := range []string{"/", "/metrics", "/healthz", "/readyz", "/version", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2"} {
				resp, err := http.Get("http://" + m[1] + path)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || len(body) == 0 {
					t.Errorf("%s: %d bytes, %v", path, len(body), err)
				}
				fmt.Fprintf(&all, "%s\n%s\n", path, body)
			}
			cancel()
			if <-done; code != 0 {
				t.Errorf("exit code %d", code)
			}
			for _, args := range [][]string{{"model", "inspect", state, state + ".ssr"}, {"model", "follow", "--until", "1", "--json", "--config", config, "--model-topic", topic + "-models"}} {
				if code := call(ctx, args...); code != 0 {
					t.Errorf("%v: exit code %d", args, code)
				}
			}
			if n := len(all.String()); n < 10000 {
				t.Errorf("only %d bytes to look at", n)
			}
			if i := strings.Index(all.String(), s.Password); i >= 0 {
				t.Errorf("%s: the password is told: …%s", mechanism, all.String()[max(0, i-200):i])
			}
		}
		files := 0
		if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			files++
			if bytes.Contains(data, []byte(s.Password)) {
				t.Errorf("%s holds the password", path)
			}
			return err
		}); err != nil || files < 6 {
			t.Errorf("%d files, %v", files, err)
		}
	})
}

// TestSecureTokensExpire: a trainer whose sessions end with its tokens goes on, with
// new ones, and says nothing of it.
func TestSecureTokensExpire(t *testing.T) {
	s := kafkatest.NewSecure(t, true)
	const lives = 5 * time.Second
	issuer, secret := tokenEndpoint(t, lives)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	topic, state := fmt.Sprintf("expire-%d", time.Now().UnixNano()), filepath.Join(t.TempDir(), "state")
	login := []string{"--brokers", s.Listeners["OAUTH"], "--sasl-mechanism", "oauthbearer", "--oauth-token-url", issuer, "--oauth-client-id", "trainer", "--oauth-client-secret-file", secret}
	settings := append([]string{"--topics", topic, "--model-topic", topic + "-models", "--checkpoint", state, "--group", topic}, login...)
	s.Allow("OAUTH", must(t, append([]string{"config", "acls", "train", "--principal", "trainer", "--"}, settings...)...))
	s.Allow("OAUTH", must(t, append([]string{"config", "acls", "predict", "--principal", "trainer", "--", "--predictions-topic", topic, "--topics", topic}, login...)...))
	fill := func(n string) {
		must(t, append([]string{"generate", "moons", "--count", n, "--topic", topic, "--partitions", "1", "-q"}, login...)...)
	}
	fill("300")
	var text buffer
	done := make(chan int)
	go func() {
		args := append([]string{"train", "--learner", "sbp", "--tune=off", "--warmup", "50", "--checkpoint-every", "300", "--checkpoint-interval", "0s"}, settings...)
		done <- program().Main(ctx, args, cli.Stdio{In: strings.NewReader(""), Out: &text, Err: &text, Getenv: func(string) (string, bool) { return "", false }})
	}()
	learned := func(n string) {
		t.Helper()
		if !waitCheckpoints(t, state, 1, nil) {
			t.Fatal("no checkpoint")
		}
		for newest(t, state).Meta["learned"] != n {
			select {
			case code := <-done:
				t.Fatalf("it ends with %d:\n%s", code, text.String())
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	learned("300")
	time.Sleep(2 * lives)
	fill("300")
	learned("600")
	cancel()
	if code := <-done; code != 0 {
		t.Errorf("exit code %d", code)
	}
	if strings.Contains(text.String(), "level=WARN") || strings.Contains(text.String(), tokenHead) {
		t.Errorf("it says:\n%s", text.String())
	}
}
