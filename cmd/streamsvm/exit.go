package main

import (
	"errors"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/fileio"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
	"github.com/streamsvm/streamsvm/topiclog"
)

// exitCode returns the exit code for err: its own if it has one, otherwise the
// one that suits what it wraps.
func exitCode(err error) cli.Code {
	var own *cli.Error
	var record *stream.RecordError
	var field *stream.FieldError
	var dead *stream.DeadError
	var one *stream.OneLabelError
	var snapshot *checkpoint.Error
	var epoch *checkpoint.EpochError
	var promote *modeltopic.PromoteError
	var expect *modeltopic.ExpectError
	var session *kafkaio.SessionError
	switch {
	case errors.As(err, &own):
		return own.Code
	case errors.As(err, &record), errors.As(err, &field), errors.As(err, &dead), errors.As(err, &one), errors.As(err, &snapshot), errors.As(err, &epoch), errors.As(err, &promote), errors.Is(err, checkpoint.ErrNoValid), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, zstd.ErrMagicMismatch):
		return cli.Data
	case errors.Is(err, checkpoint.ErrLocked), errors.Is(err, fileio.ErrLocked), errors.Is(err, modeltopic.ErrGivenUp), errors.As(err, &expect), errors.As(err, &session):
		return cli.Temporary
	case errors.Is(err, checkpoint.ErrFenced), errors.Is(err, kafkaio.ErrFenced):
		return cli.Fenced
	case errors.Is(err, topiclog.ErrUnfit):
		return cli.Config
	}
	return cli.CodeOf(err)
}
