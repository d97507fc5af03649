package kafkatest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates for a test.
type Authority struct {
	tb   testing.TB
	cert *x509.Certificate
	key  crypto.Signer
	// File is a PEM file with the authority's certificate; Pool has it, too.
	File string
	Pool *x509.CertPool
	dir  string
}

// NewAuthority creates an authority with that name.
func NewAuthority(tb testing.TB, name string) *Authority {
	tb.Helper()
	a := &Authority{tb: tb, dir: tb.TempDir(), Pool: x509.NewCertPool()}
	t := template(name, time.Hour)
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	a.key = newKey(tb)
	a.cert = sign(tb, t, t, a.key.Public(), a.key)
	a.Pool.AddCert(a.cert)
	a.File = filepath.Join(a.dir, "ca.pem")
	writePEM(tb, a.File, "CERTIFICATE", a.cert.Raw)
	return a
}

// Pair is a certificate with its key, in memory and in PEM files.
type Pair struct {
	TLS               tls.Certificate
	CertFile, KeyFile string
}

// Issue returns a certificate for name and the loopback addresses that is valid for
// the given time or, if that is negative, has been expired for as long.
func (a *Authority) Issue(name string, valid time.Duration) Pair {
	a.tb.Helper()
	key := newKey(a.tb)
	t := template(name, valid)
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	t.DNSNames, t.IPAddresses = []string{name}, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	if name == "elsewhere.example" {
		t.IPAddresses = nil
	}
	cert := sign(a.tb, t, a.cert, key.Public(), a.key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.tb.Fatal(err)
	}
	dir := a.tb.TempDir()
	p := Pair{TLS: tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}, CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	writePEM(a.tb, p.CertFile, "CERTIFICATE", cert.Raw)
	writePEM(a.tb, p.KeyFile, "PRIVATE KEY", der)
	return p
}

func template(name string, valid time.Duration) *x509.Certificate {
	now := time.Now()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-1000 * time.Hour), NotAfter: now.Add(valid),
	}
}

func newKey(tb testing.TB) crypto.Signer {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func sign(tb testing.TB, t, parent *x509.Certificate, pub crypto.PublicKey, key crypto.Signer) *x509.Certificate {
	tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, t, parent, pub, key)
	if err != nil {
		tb.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func writePEM(tb testing.TB, path, kind string, der []byte) {
	tb.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		tb.Fatal(err)
	}
}
