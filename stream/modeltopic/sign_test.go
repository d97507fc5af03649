package modeltopic

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

// keyOf makes a key of a test's own.
func keyOf(seed byte) (ed25519.PrivateKey, ed25519.PublicKey) {
	k := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	return k, k.Public().(ed25519.PublicKey)
}

// trusting is an assembler that trusts keys.
func trusting(model string, keys ...ed25519.PublicKey) *assembler {
	return &assembler{model: model, limit: 1 << 20, deltas: true, keys: keys}
}

// feed adds records and returns the first error, and whether an update came of
// them.
func feed(a *assembler, recs ...stream.Record) (done bool, err error) {
	for i := range recs {
		d, e := a.add(&recs[i])
		done = done || d
		err = errors.Join(err, e)
	}
	return done, err
}

// changed returns records with the envelopes changed, and the hashes right.
func changed(t *testing.T, recs []stream.Record, change func(*envelope)) []stream.Record {
	t.Helper()
	out := slices.Clone(recs)
	for i := range out {
		if out[i].Value == nil {
			continue
		}
		e, err := decodeEnvelope(out[i].Value, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		change(e)
		e.chunkHash = xxhash.Sum64(e.data)
		if out[i].Value, err = e.encode(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// What is not signed, not by a trusted key, or not what has been signed, is
// refused, and what was there before stays in use.
func TestUntrusted(t *testing.T) {
	key, pub := keyOf(1)
	foreign, _ := keyOf(2)
	signed := func(u *stream.Update, k ed25519.PrivateKey) []stream.Record {
		return chunks(t, PublisherOptions{SigningKey: k, MaxRecordBytes: 2000}, u)
	}
	v1, v2 := update("m", 1, 1, 5000), update("m", 1, 2, 5000)
	first, second := signed(v1, key), signed(v2, key)
	if len(second) < 3 || !slices.EqualFunc(second, signed(v2, key), func(a, b stream.Record) bool {
		return bytes.Equal(a.Value, b.Value) && slices.EqualFunc(a.Headers, b.Headers, func(x, y stream.Header) bool { return x.Key == y.Key && bytes.Equal(x.Value, y.Value) })
	}) {
		t.Fatal("the same update, signed twice, is not the same records")
	}
	d := deltaOf(v1, v2)
	other := bytes.Clone(v2.Payload)
	other[77]++
	forged := *v2
	forged.Payload, forged.Hash = other, xxhash.Sum64(other)
	bad := map[string]struct {
		recs  []stream.Record
		key   string
		known bool
	}{
		"not signed":                    {signed(v2, nil), "", false},
		"signed by another key":         {signed(v2, foreign), KeyID(foreign.Public().(ed25519.PublicKey)), false},
		"an older one in a new epoch":   {changed(t, first, func(e *envelope) { e.Epoch = 9 }), KeyID(pub), true},
		"an older one as a new version": {changed(t, first, func(e *envelope) { e.Version = 9 }), KeyID(pub), true},
		"of another model":              {changed(t, signed(update("other", 1, 2, 5000), key), func(e *envelope) { e.Model = "m" }), KeyID(pub), true},
		"with another evaluation":       {changed(t, second, func(e *envelope) { e.Evaluation[0].Value = 1 }), KeyID(pub), true},
		"a delta, not signed":           {signed(d, nil), "", false},
		"a delta as another version":    {changed(t, signed(deltaOf(update("m", 1, 1, 5001), v2), key), func(e *envelope) { e.Version++ }), KeyID(pub), true},
		"another payload":               {nil, KeyID(pub), true},
		"a signature that is none":      {signed(v2, key), KeyID(pub), true},
	}
	tampered := signed(&forged, nil)
	tampered[0].Headers = second[0].Headers
	c := bad["another payload"]
	c.recs = tampered
	bad["another payload"] = c
	h := slices.Clone(bad["a signature that is none"].recs[0].Headers)
	h[len(h)-1].Value = append(h[len(h)-1].Value[:30:30], "AAAA"...)
	bad["a signature that is none"].recs[0].Headers = h

	for name, c := range bad {
		a := trusting("m", keyTo(3), pub)
		if done, err := feed(a, first...); !done || err != nil {
			t.Fatalf("the first is not taken: %v", err)
		}
		done, err := feed(a, c.recs...)
		var untrusted *UntrustedError
		if done || !errors.As(err, &untrusted) || untrusted.Key != c.key || untrusted.Known != c.known || a.cur.Version != 1 {
			t.Errorf("%s: taken %v, now version %d: %v", name, done, a.cur.Version, err)
		} else {
			t.Logf("%s: %v", name, err)
		}
		// It keeps nothing from coming that is right.
		if done, err := feed(a, signed(d, key)...); !done || err != nil || !bytes.Equal(a.cur.Payload, v2.Payload) {
			t.Errorf("after one that is %s, a signed delta is not taken: %v", name, err)
		}
		if done, err := feed(trusting("m", keyTo(3), pub), c.recs...); done || c.recs[0].Key != nil && strings.Contains(string(c.recs[0].Key), "full") && err == nil {
			t.Errorf("%s: taken as the first one, %v", name, err)
		}
	}
	// Without trusted keys signatures do not count.
	if done, err := feed(trusting("m"), tampered...); !done || err != nil {
		t.Errorf("without trusted keys: %v", err)
	}
	// A claim of a huge epoch, which nobody signs, cannot shut out what comes.
	enc := newEncoder("t", "m", 1, 0)
	claim, err := enc.claim(Claim{Epoch: 1 << 60, Owner: "x", At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if done, err := feed(trusting("m", pub), append([]stream.Record{claim}, first...)...); !done || err != nil {
		t.Errorf("after a foreign claim: %v", err)
	}
}

func keyTo(seed byte) ed25519.PublicKey { _, pub := keyOf(seed); return pub }

// A subscriber that trusts keys stays on what it has, counts and says what it
// refuses, and tells those that wait for a first model.
func TestTrustedKeys(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, nil)
	trainers, trainer := keyOf(1)
	operators, operator := keyOf(2)
	pub := publisher(t, PublisherOptions{Config: config(brokers), Topic: topic, Model: "m", SigningKey: trainers})
	us := []*stream.Update{update("m", 1, 1, 500), update("m", 1, 2, 500), update("m", 1, 3, 500)}
	publish(t, pub, us[0])
	o := AliasOptions{Config: config(brokers), Topic: topic, Model: "m", SigningKey: operators}
	ops := promoter(t, o)
	promote(t, ops, us[0], stream.Promotion{})
	byTrainer := subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic, TrustedKeys: []ed25519.PublicKey{trainer}})
	champion := subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic, Model: "m@champion", TrustedKeys: []ed25519.PublicKey{operator}})
	sameUpdate(t, next(t, byTrainer), us[0])
	sameUpdate(t, next(t, champion), renamed(us[0], "m@champion", 1))

	// The trainer's key cannot promote, and without a key nobody tries in vain.
	o.SigningKey = nil
	if err := promoter(t, o).Promote(t.Context(), us[1], stream.Promotion{}); err == nil || !strings.Contains(err.Error(), KeyID(operator)) {
		t.Errorf("promoted without a key: %v", err)
	}
	o.SigningKey = trainers
	byWrong := promoter(t, o)
	promote(t, byWrong, us[1], stream.Promotion{})
	// What the operators did not sign they do not sign by going back to it.
	promote(t, ops, us[2], stream.Promotion{})
	sameUpdate(t, next(t, champion), renamed(us[2], "m@champion", 3))
	if champion.Untrusted() != 1 || champion.Rejected() != 1 {
		t.Errorf("%d untrusted, %d rejected", champion.Untrusted(), champion.Rejected())
	}
	if _, err := ops.Rollback(t.Context(), stream.Promotion{}); err == nil || !strings.Contains(err.Error(), "without a trusted signature") {
		t.Errorf("rolled back to what is not signed: %v", err)
	}
	promote(t, ops, us[0], stream.Promotion{})
	if u, err := ops.Rollback(t.Context(), stream.Promotion{}); err != nil || u.Version != 3 {
		t.Errorf("rolled back: %v", err)
	}
	reach(t, champion, renamed(us[2], "m@champion", 5))
	late := subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic, Model: "m@champion-1", TrustedKeys: []ed25519.PublicKey{operator}})
	sameUpdate(t, next(t, late), renamed(us[0], "m@champion-1", 5))

	// Who waits is told why.
	s := subscriber(t, SubscriberOptions{Config: config(brokers), Topic: topic, Model: "m", TrustedKeys: []ed25519.PublicKey{operator}, TopicWait: time.Millisecond})
	if _, err := s.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "holds no model m that is trusted") || !strings.Contains(err.Error(), KeyID(trainer)) {
		t.Errorf("a model that is signed by another: %v", err)
	}
	c, err := Read(t.Context(), ReadOptions{Config: config(brokers), Topic: topic, Model: "m", TrustedKeys: []ed25519.PublicKey{operator}})
	if err != nil || c.Rejected != 1 || c.Models[0].Newest != nil || c.Models[0].Updates[0].State != StateDamaged {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err = Read(t.Context(), ReadOptions{Config: config(brokers), Topic: topic, Model: "m"}); err != nil || c.Models[0].Updates[0].SignedBy != KeyID(trainer) {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestKeyFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, kind string, der []byte, err error) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err == nil {
			err = os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, pub := keyOf(1)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	private := write("key.pem", "PRIVATE KEY", der, err)
	der, err = x509.MarshalPKIXPublicKey(pub)
	public := write("key.pub", "PUBLIC KEY", der, err)
	if k, err := ReadSigningKey(private); err != nil || !k.Equal(key) {
		t.Errorf("signing key: %v", err)
	}
	text, err := os.ReadFile(public)
	if err != nil {
		t.Fatal(err)
	}
	several := filepath.Join(dir, "several.pub")
	if err := os.WriteFile(several, append([]byte("# ours\n"), append(text, text...)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if ks, err := ReadTrustedKeys(public, several); err != nil || len(ks) != 3 || !ks[2].Equal(pub) {
		t.Errorf("trusted keys: %v, %v", ks, err)
	}
	if _, err := ReadSigningKey(public); err == nil || !strings.Contains(err.Error(), "public key") {
		t.Errorf("a public key signs: %v", err)
	}
	if _, err := ReadTrustedKeys(private); err == nil || !strings.Contains(err.Error(), "private key") {
		t.Errorf("a private key is trusted: %v", err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadTrustedKeys(empty); err == nil {
		t.Error("a file without a key")
	}

	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("no openssl")
	}
	made := filepath.Join(dir, "made.pem")
	for _, args := range [][]string{{"genpkey", "-algorithm", "ed25519", "-out", made}, {"pkey", "-in", made, "-pubout", "-out", made + ".pub"}} {
		if out, err := exec.Command(openssl, args...).CombinedOutput(); err != nil {
			t.Fatalf("openssl %q: %v\n%s", args, err, out)
		}
	}
	k, err := ReadSigningKey(made)
	if err != nil {
		t.Fatal(err)
	}
	if ks, err := ReadTrustedKeys(made + ".pub"); err != nil || !ks[0].Equal(k.Public()) {
		t.Errorf("a pair of openssl's: %v", err)
	}
	rsa := filepath.Join(dir, "rsa.pem")
	if out, err := exec.Command(openssl, "genpkey", "-algorithm", "rsa", "-out", rsa).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := ReadSigningKey(rsa); err == nil {
		t.Error("a key of RSA signs")
	}
}

// The example of docs/formats/model-topic.md.
func TestSignatureExample(t *testing.T) {
	u := &stream.Update{
		Kind: stream.Full, Model: "m", Learner: "scs", Version: 7, Epoch: 2, Step: 70, Examples: 700, Offsets: stream.Offsets{{Topic: "in"}: 7},
		Created: time.UnixMilli(1_700_000_000_000), Evaluation: []stream.Measure{{Name: "accuracy", Value: 0.9}}, Payload: []byte("abc"), Hash: xxhash.Sum64String("abc"),
	}
	key := ed25519.NewKeyFromSeed([]byte("an example, and no secret at all"))
	r := chunks(t, PublisherOptions{SigningKey: key, MaxRecordBytes: 2000}, u)[0]
	doc, err := os.ReadFile("../../docs/formats/model-topic.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(doc)
	for i := 0; i < len(r.Value); i += 16 {
		if line := fmt.Sprintf("%04x  % x", i, r.Value[i:min(i+16, len(r.Value))]); !strings.Contains(text, line) {
			t.Errorf("the page lacks %s", line)
		}
	}
	if h := r.Headers[len(r.Headers)-1]; h.Key != headerSignature || !strings.Contains(text, "signature = "+string(h.Value)+"\n") {
		t.Errorf("the page lacks %s = %s", h.Key, h.Value)
	}
	// What is signed is the value up to the field chunk, and a hash.
	e, err := decodeEnvelope(r.Value, 10)
	if err != nil {
		t.Fatal(err)
	}
	b, err := e.signed(u.Payload)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(u.Payload)
	front := r.Value[:bytes.Index(r.Value, []byte("\xa5chunk\xcf"))]
	if want := slices.Concat([]byte("streamsvm update 1\n"), front, sum[:]); !bytes.Equal(b, want) {
		t.Errorf("signed is %q, not %q", b, want)
	}
}
