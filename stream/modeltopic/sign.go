package modeltopic

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/streamsvm/streamsvm/checkpoint/state"
)

// headerSignature is the header of an update's first chunk that holds its
// signature: "ed25519 KEY SIGNATURE", the KeyID and 64 bytes in base64.
const headerSignature = "signature"

// signedPrefix begins the signed bytes, so that a signature cannot be used for anything
// else.
const signedPrefix = "streamsvm update 1\n"

// UntrustedError says that an update has no valid signature by a trusted key.
type UntrustedError struct {
	// Key is the KeyID that the update names, empty if it is not signed.
	Key string
	// Known reports whether that key is trusted: then the update has been changed after
	// it was signed.
	Known bool
}

func (e *UntrustedError) Error() string {
	switch {
	case e.Key == "":
		return "it is not signed, and only updates with a trusted signature are taken"
	case !e.Known:
		return fmt.Sprintf("it is signed with key %s, which is not a trusted key", e.Key)
	}
	return fmt.Sprintf("it is not what was signed with key %s: something in it has been changed, or it has been written again under another name, version or epoch", e.Key)
}

// signed returns the bytes to sign: everything about the update, and the SHA-256
// of its payload.
func (e *envelope) signed(payload []byte) ([]byte, error) {
	h := *e
	b, err := state.Append([]byte(signedPrefix), h.about)
	sum := sha256.Sum256(payload)
	return append(b, sum[:]...), err
}

// sign returns the value of the header.
func (e *envelope) sign(payload []byte, key ed25519.PrivateKey) (string, error) {
	b, err := e.signed(payload)
	if err != nil {
		return "", err
	}
	return "ed25519 " + KeyID(key.Public().(ed25519.PublicKey)) + " " + base64.StdEncoding.EncodeToString(ed25519.Sign(key, b)), nil
}

// verify fails with an *UntrustedError unless one of the keys has signed the
// update.
func (e *envelope) verify(payload []byte, signature string, keys []ed25519.PublicKey) error {
	if signature == "" {
		return &UntrustedError{}
	}
	id := signedBy(signature)
	i := slices.IndexFunc(keys, func(k ed25519.PublicKey) bool { return KeyID(k) == id })
	if i < 0 {
		return &UntrustedError{Key: id}
	}
	b, err := e.signed(payload)
	if err != nil {
		return err
	}
	sig, err := base64.StdEncoding.DecodeString(signature[strings.LastIndexByte(signature, ' ')+1:])
	if err != nil || !ed25519.Verify(keys[i], b, sig) {
		return &UntrustedError{Key: id, Known: true}
	}
	return nil
}

// signedBy returns the KeyID that a signature names.
func signedBy(signature string) string {
	if f := strings.Split(signature, " "); len(f) == 3 && f[0] == "ed25519" {
		return f[1]
	}
	return fmt.Sprintf("%.40q", signature)
}

// KeyID names a key: the first 16 hexadecimal digits of the SHA-256 of its DER
// form, as printed by "openssl pkey -pubin -in FILE -outform DER | sha256sum".
func KeyID(key ed25519.PublicKey) string {
	der, _ := x509.MarshalPKIXPublicKey(key) // always has one
	sum := sha256.Sum256(der)
	return fmt.Sprintf("%x", sum[:8])
}

// ReadSigningKey reads a private key from a PEM file as written by "openssl genpkey
// -algorithm ed25519" (PKCS #8).
func ReadSigningKey(path string) (ed25519.PrivateKey, error) {
	blocks, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(blocks[0].Bytes)
	own, ok := key.(ed25519.PrivateKey)
	if !ok || len(blocks) > 1 {
		return nil, fmt.Errorf("%s holds %s, not one private key of ed25519%s", path, kindOf(blocks), because(err))
	}
	return own, nil
}

// ReadTrustedKeys reads public keys from PEM files as written by "openssl pkey
// -pubout"; each file may hold several.
func ReadTrustedKeys(paths ...string) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey
	for _, path := range paths {
		blocks, err := readPEM(path)
		if err != nil {
			return nil, err
		}
		for _, b := range blocks {
			key, err := x509.ParsePKIXPublicKey(b.Bytes)
			own, ok := key.(ed25519.PublicKey)
			if !ok {
				return nil, fmt.Errorf("%s holds %s, not public keys of ed25519%s", path, kindOf([]*pem.Block{b}), because(err))
			}
			keys = append(keys, own)
		}
	}
	return keys, nil
}

func readPEM(path string) (blocks []*pem.Block, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for b, rest := pem.Decode(data); b != nil; b, rest = pem.Decode(rest) {
		blocks = append(blocks, b)
	}
	if len(blocks) == 0 {
		return nil, fmt.Errorf("%s holds no key in PEM", path)
	}
	return blocks, nil
}

// kindOf describes PEM blocks by their types.
func kindOf(blocks []*pem.Block) string {
	if len(blocks) > 1 {
		return fmt.Sprintf("%d PEM blocks", len(blocks))
	}
	return "a PEM block " + strings.ToLower(blocks[0].Type)
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}

// checkKeys refuses keys of a wrong size.
func checkKeys(own ed25519.PrivateKey, trusted []ed25519.PublicKey) error {
	if own != nil && len(own) != ed25519.PrivateKeySize {
		return errors.New("kafka: the signing key is not one of ed25519")
	}
	for _, k := range trusted {
		if len(k) != ed25519.PublicKeySize {
			return errors.New("kafka: a trusted key is not one of ed25519")
		}
	}
	return nil
}
