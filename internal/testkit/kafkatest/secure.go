package kafkatest

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/streamsvm/streamsvm/contrib/broker"
)

// Secure is a cluster with TLS, authentication and ACLs. Its users are trainer and
// nobody, with one password for all mechanisms. They may do what Allow says.
type Secure struct {
	// TB is the test it belongs to.
	TB testing.TB
	// Password is the users' password, PasswordFile a file with it.
	Password, PasswordFile string
	// CA is a PEM file with the authority to trust, OtherCA one with another
	// authority.
	CA, OtherCA string
	// Cert and Key are PEM files with the client certificate for CN=trainer,
	// ExpiredCert and ExpiredKey with an expired one.
	Cert, Key, ExpiredCert, ExpiredKey string
	// Listeners are addresses by kind: TLS, MTLS (requires client certificates),
	// EXPIRED (TLS with an expired certificate), SASL, SASLTLS, and with Apache
	// Kafka OAUTH and OAUTHTLS, which accept unsigned tokens. Embedded, each one is
	// a cluster of its own.
	Listeners map[string]string
	// Real says that it is Apache Kafka.
	Real bool

	admin []string // the plain listener of a real one
}

// Mechanisms of Secure.SASL listeners, as --sasl-mechanism names them.
var Mechanisms = []string{"plain", "scram-sha-256", "scram-sha-512"}

// NewSecure returns the secure broker that the environment names in
// STREAMSVM_TEST_SECURE, the directory given to "scripts/kafka.sh secure", or
// embedded ones. It skips the test if real is required and there is none.
func NewSecure(tb testing.TB, real bool) *Secure {
	tb.Helper()
	dir := os.Getenv("STREAMSVM_TEST_SECURE")
	switch {
	case !real:
		return embeddedSecure(tb)
	case dir == "":
		tb.Skip("needs a secure Apache Kafka: scripts/kafka.sh secure DIR, and STREAMSVM_TEST_SECURE=DIR")
	}
	in := func(name string) string { return filepath.Join(dir, "tls", name) }
	s := &Secure{
		TB: tb, Real: true, Listeners: map[string]string{}, PasswordFile: in("password"), CA: in("ca.pem"), OtherCA: in("other.pem"),
		Cert: in("trainer.pem"), Key: in("trainer.key"), ExpiredCert: in("expired-trainer.pem"), ExpiredKey: in("expired-trainer.key"),
	}
	f, err := os.Open(filepath.Join(dir, "secure.env"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, addr, ok := strings.Cut(lines.Text(), "="); ok {
			s.Listeners[name] = addr
		}
	}
	s.admin = []string{s.Listeners["PLAINTEXT"]}
	s.readPassword()
	return s
}

func (s *Secure) readPassword() {
	s.TB.Helper()
	text, err := os.ReadFile(s.PasswordFile)
	if err != nil {
		s.TB.Fatal(err)
	}
	s.Password = strings.TrimSpace(string(text))
}

func embeddedSecure(tb testing.TB) *Secure {
	tb.Helper()
	ca, other := NewAuthority(tb, "streamsvm ca"), NewAuthority(tb, "streamsvm other")
	server, gone := ca.Issue("localhost", time.Hour), ca.Issue("localhost", -time.Hour)
	client, old := ca.Issue("trainer", time.Hour), ca.Issue("trainer", -time.Hour)
	s := &Secure{
		TB: tb, Password: "not-for-anybody-4711", CA: ca.File, OtherCA: other.File, Cert: client.CertFile, Key: client.KeyFile,
		ExpiredCert: old.CertFile, ExpiredKey: old.KeyFile, Listeners: map[string]string{}, PasswordFile: filepath.Join(tb.TempDir(), "password"),
	}
	if err := os.WriteFile(s.PasswordFile, []byte(s.Password+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	with := func(p Pair) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{p.TLS}} }
	mutual := with(server)
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool
	users := []User{{Mechanism: "PLAIN", Name: "admin", Password: s.Password, Super: true}}
	for _, name := range []string{"trainer", "nobody"} {
		for _, m := range Mechanisms {
			users = append(users, User{Mechanism: strings.ToUpper(m), Name: name, Password: s.Password})
		}
	}
	for name, o := range map[string]broker.Options{
		"TLS": {TLS: with(server)}, "MTLS": {TLS: mutual}, "EXPIRED": {TLS: with(gone)},
		"SASL": {More: Users(users...)}, "SASLTLS": {TLS: with(server), More: Users(users...)},
	} {
		b, err := broker.Start(o)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(b.Close)
		s.Listeners[name] = b.Addr()
	}
	return s
}

// client returns a client for the listener's cluster with all permissions, or nil
// if that cluster has no access control.
func (s *Secure) client(listener string) *kgo.Client {
	s.TB.Helper()
	if s.Real {
		return Client(s.TB, s.admin)
	}
	opts := []kgo.Opt{kgo.SASL(plain.Auth{User: "admin", Pass: s.Password}.AsMechanism())}
	switch listener {
	case "SASL":
	case "SASLTLS":
		opts = append(opts, kgo.DialTLSConfig(&tls.Config{InsecureSkipVerify: true})) // the test's own broker
	default:
		return nil
	}
	return Client(s.TB, []string{s.Listeners[listener]}, opts...)
}

// Allow grants what the lines, commands of kafka-acls.sh, say, until the test ends.
func (s *Secure) Allow(listener, lines string) {
	s.TB.Helper()
	c := s.client(listener)
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req := kmsg.NewPtrCreateACLsRequest()
	for line := range strings.Lines(lines) {
		req.Creations = append(req.Creations, s.parse(line)...)
	}
	resp, err := req.RequestWith(ctx, c)
	if err != nil {
		s.TB.Fatal(err)
	}
	for _, r := range resp.Results {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			s.TB.Fatalf("create ACL: %v", err)
		}
	}
	// A broker takes a moment to learn of them.
	for _, one := range req.Creations {
		for !s.allows(ctx, c, one) {
			pause(ctx)
		}
	}
}

// Revoke revokes what Allow granted with the same lines.
func (s *Secure) Revoke(listener, lines string) {
	s.TB.Helper()
	c := s.client(listener)
	if c == nil {
		s.TB.Fatalf("listener %s has no administrator", listener)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for line := range strings.Lines(lines) {
		for _, one := range s.parse(line) {
			req := kmsg.NewPtrDeleteACLsRequest()
			f := kmsg.NewDeleteACLsRequestFilter()
			f.ResourceType, f.ResourceName, f.ResourcePatternType = one.ResourceType, &one.ResourceName, one.ResourcePatternType
			f.Principal, f.Operation, f.PermissionType = &one.Principal, one.Operation, one.PermissionType
			req.Filters = append(req.Filters, f)
			resp, err := req.RequestWith(ctx, c)
			if err == nil {
				err = kerr.ErrorForCode(resp.Results[0].ErrorCode)
			}
			if err != nil {
				s.TB.Fatalf("delete ACL: %v", err)
			}
			for s.allows(ctx, c, one) {
				pause(ctx)
			}
		}
	}
}

// allows reports whether the broker knows the grant.
func (s *Secure) allows(ctx context.Context, c *kgo.Client, one kmsg.CreateACLsRequestCreation) bool {
	s.TB.Helper()
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourceName, req.ResourcePatternType = one.ResourceType, &one.ResourceName, one.ResourcePatternType
	req.Principal, req.Operation, req.PermissionType = &one.Principal, one.Operation, one.PermissionType
	resp, err := req.RequestWith(ctx, c)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		s.TB.Fatalf("describe ACLs: %v", err)
	}
	return len(resp.Resources) > 0
}

// parse parses a command of kafka-acls.sh.
func (s *Secure) parse(line string) []kmsg.CreateACLsRequestCreation {
	s.TB.Helper()
	one := kmsg.NewCreateACLsRequestCreation()
	one.Host, one.PermissionType, one.ResourcePatternType = "*", kmsg.ACLPermissionTypeAllow, kmsg.ACLResourcePatternTypeLiteral
	var ops []kmsg.ACLOperation
	words := strings.Fields(line)
	for i := 0; i+1 < len(words); i++ {
		switch words[i] {
		case "--allow-principal":
			one.Principal = words[i+1]
		case "--operation":
			op, err := kmsg.ParseACLOperation(words[i+1])
			if err != nil {
				s.TB.Fatal(err)
			}
			ops = append(ops, op)
		case "--topic":
			one.ResourceType, one.ResourceName = kmsg.ACLResourceTypeTopic, words[i+1]
		case "--group":
			one.ResourceType, one.ResourceName = kmsg.ACLResourceTypeGroup, words[i+1]
		case "--transactional-id":
			one.ResourceType, one.ResourceName = kmsg.ACLResourceTypeTransactionalId, words[i+1]
		case "--resource-pattern-type":
			one.ResourcePatternType = kmsg.ACLResourcePatternTypePrefixed
		}
	}
	var out []kmsg.CreateACLsRequestCreation
	for _, op := range ops {
		one.Operation = op
		out = append(out, one)
	}
	if len(out) == 0 || one.Principal == "" || one.ResourceName == "" {
		s.TB.Fatalf("cannot read %q", line)
	}
	return out
}

// CreateTopic creates a topic with one partition on the listener's cluster; it is
// deleted at the end of the test.
func (s *Secure) CreateTopic(listener, name string) {
	s.TB.Helper()
	c := s.client(listener)
	if c == nil {
		s.TB.Fatalf("listener %s has no administrator", listener)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, c)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		s.TB.Fatal(err)
	}
	waitLeaders(ctx, s.TB, c, name, 1)
	if s.Real {
		s.TB.Cleanup(func() { drop(s.TB, s.admin, name) })
	}
}

// User is a user of a broker with authentication.
type User struct {
	// Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
	Mechanism, Name, Password string
	// Super users may do everything.
	Super bool
	Allow []Grant
}

// Grant allows an operation, such as READ, on a resource (TOPIC, GROUP, CLUSTER or
// TRANSACTIONAL_ID) with that name, or on all whose names start with it.
type Grant struct {
	Resource, Name, Operation string
	Prefixed                  bool
}

// Fake starts a cluster in memory, whose answers a test can change.
func Fake(tb testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	tb.Helper()
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// Users returns the options of an embedded broker that only these users may use,
// each with its grants.
func Users(users ...User) []kfake.Opt {
	opts := []kfake.Opt{kfake.EnableSASL(), kfake.EnableACLs()}
	for _, u := range users {
		if u.Super {
			opts = append(opts, kfake.Superuser(u.Mechanism, u.Name, u.Password))
			continue
		}
		var acls []kfake.ACL
		for _, g := range u.Allow {
			r, err1 := kmsg.ParseACLResourceType(g.Resource)
			op, err2 := kmsg.ParseACLOperation(g.Operation)
			if err := errors.Join(err1, err2); err != nil {
				panic(err)
			}
			pattern := kmsg.ACLResourcePatternTypeLiteral
			if g.Prefixed {
				pattern = kmsg.ACLResourcePatternTypePrefixed
			}
			acls = append(acls, kfake.ACL{Resource: r, Name: g.Name, Pattern: pattern, Operation: op, Allow: true})
		}
		opts = append(opts, kfake.User(u.Mechanism, u.Name, u.Password, acls...))
	}
	return opts
}
