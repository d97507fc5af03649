package main

import (
	"crypto/ed25519"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// trustFlags say whose models are accepted.
type trustFlags struct{ trusted []string }

func (o *trustFlags) define(f *cli.Flags) {
	f.StringSliceVar(&o.trusted, "trusted-keys", nil, "PEM `FILES` with public keys: take only updates signed with one of them")
}

func (o *trustFlags) trustedKeys(c *cli.Call) ([]ed25519.PublicKey, error) {
	keys, err := modeltopic.ReadTrustedKeys(o.trusted...)
	if err != nil {
		return nil, c.Bad("trusted-keys", err)
	}
	return keys, nil
}

// signFlags say which key signs models.
type signFlags struct{ file string }

func (o *signFlags) define(f *cli.Flags) {
	f.StringVar(&o.file, "signing-key-file", "", "PEM `FILE` with a private key of \"openssl genpkey -algorithm ed25519\" that signs what is written to the model topic")
}

func (o *signFlags) signingKey(c *cli.Call) (ed25519.PrivateKey, error) {
	if o.file == "" {
		return nil, nil
	}
	key, err := modeltopic.ReadSigningKey(o.file)
	if err != nil {
		return nil, c.Bad("signing-key-file", err)
	}
	return key, nil
}
