//go:build !core

package main

import (
	"errors"

	"golang.org/x/oauth2"

	"github.com/streamsvm/streamsvm/contrib/msk"
	"github.com/streamsvm/streamsvm/contrib/onnx"
	"github.com/streamsvm/streamsvm/contrib/registry"

	// These add commands, a learner, the gate, and checkpoints in topics.
	_ "github.com/streamsvm/streamsvm/contrib/demo"
	_ "github.com/streamsvm/streamsvm/contrib/dlq"
	_ "github.com/streamsvm/streamsvm/contrib/doctor"
	_ "github.com/streamsvm/streamsvm/contrib/gate"
	_ "github.com/streamsvm/streamsvm/contrib/inspect"
	_ "github.com/streamsvm/streamsvm/contrib/pipe"
	_ "github.com/streamsvm/streamsvm/contrib/scale"
	_ "github.com/streamsvm/streamsvm/contrib/serve"
	_ "github.com/streamsvm/streamsvm/contrib/statetopic"
	"github.com/streamsvm/streamsvm/internal/app/cli"
)

// A build with -tags core leaves this file out, and contribscale.go and generate.go. No other file imports contrib.

func init() {
	awsTokens = func(region string) oauth2.TokenSource { return msk.Tokens(region) }
	newRegistry = func(o registryOptions) (schemaRegistry, error) { return registry.New(registry.Options(o)) }
	exporters["onnx"] = exporter{
		text: `--format onnx writes an ONNX model, from the fields of an event, or a vector, to
label and probability. docs/onnx.md says which models it supports.`,
		check: onnx.CheckSchema,
		convert: func(plain []byte, maxNumbers int) ([]byte, error) {
			m, err := onnx.Convert(plain, onnx.Options{MaxNumbers: maxNumbers})
			var refused *onnx.RefusedError
			switch {
			case errors.As(err, &refused):
				return nil, cli.Fail(cli.Data, err)
			case err != nil:
				return nil, err
			}
			return m.Bytes, nil
		},
	}
}
