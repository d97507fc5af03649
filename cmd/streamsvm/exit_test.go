package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/topiclog"
)

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want cli.Code
	}{
		{nil, cli.OK},
		{errors.New("x"), cli.Software},
		{cli.Fail(cli.IO, checkpoint.ErrFenced), cli.IO},
		{fmt.Errorf("a: %w", &stream.RecordError{Err: errors.New("b")}), cli.Data},
		{&checkpoint.Error{Err: checkpoint.ErrMagic}, cli.Data},
		{fmt.Errorf("a: %w", checkpoint.ErrNoValid), cli.Data},
		{fmt.Errorf("a: %w", checkpoint.ErrLocked), cli.Temporary},
		{fmt.Errorf("a: %w", checkpoint.ErrFenced), cli.Fenced},
		{fmt.Errorf("a: %w", &topiclog.FencedError{}), cli.Fenced},
		{fmt.Errorf("a: %w", io.ErrUnexpectedEOF), cli.Data},
		{fmt.Errorf("a: %w", gzip.ErrHeader), cli.Data},
		{fmt.Errorf("a: %w", zstd.ErrMagicMismatch), cli.Data},
		{context.Canceled, cli.Temporary},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("exitCode(%v) = %d, want %d", c.err, got, c.want)
		}
	}
}
