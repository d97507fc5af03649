package dlq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/stream"
)

// maxRepaired bounds the output of a repair command.
const maxRepaired = 64 << 20

// repaired sends a letter's value through a shell command. It returns false if the
// command refuses the letter.
func repaired(ctx context.Context, command string, rec *stream.Record, l *deadletter.Letter) (value []byte, ok bool, err error) {
	var out, said limited
	out.most, said.most = maxRepaired, 4096
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(rec.Value), &out, &said
	cmd.WaitDelay = time.Second // for processes that the shell has started
	cmd.Env = repairEnv(l)
	if err = cmd.Run(); ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == int(cli.Data) {
		return nil, false, nil
	}
	if err == nil && out.over {
		err = fmt.Errorf("it prints more than %d bytes", maxRepaired)
	}
	if err != nil {
		text := strings.TrimSpace(said.b.String())
		if text != "" {
			text = ": " + cli.Printable(text)
		}
		return nil, false, cli.Failf(cli.Data, "%s/%d offset %d: the repair command: %w%s", rec.Topic, rec.Partition, rec.Offset, err, text)
	}
	value = out.b.Bytes()
	// The newline at the end of a text comes from the tool. In a binary value it may be
	// part of a number.
	if utf8.Valid(value) {
		value = bytes.TrimSuffix(value, []byte("\n"))
	}
	return value, true, nil
}

// repairEnv returns the environment of a repair command: ours without our settings,
// which may be secret, plus the content of the letter's headers.
func repairEnv(l *deadletter.Letter) []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "STREAMSVM_") {
			env = append(env, kv)
		}
	}
	for _, kv := range [][2]string{
		{"TOPIC", l.Topic}, {"PARTITION", strconv.Itoa(int(l.Partition))}, {"OFFSET", strconv.FormatInt(l.Offset, 10)},
		{"STAGE", l.Stage}, {"REASON", l.Reason}, {"MESSAGE", l.Message},
	} {
		env = append(env, "DLQ_"+kv[0]+"="+cli.Printable(kv[1]))
	}
	return env
}

// limited keeps the first bytes written to it, and whether there were more.
type limited struct {
	b    bytes.Buffer
	most int
	over bool
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.most-l.b.Len())
	l.b.Write(p[:n])
	l.over = l.over || n < len(p)
	return len(p), nil
}
