package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
)

// TestSecureReplayACLs: dlq list and dlq replay do with what acls --role dlq
// grants, and not without one of it. A broker may show a topic that must not be
// used as one that does not exist.
func TestSecureReplayACLs(t *testing.T) {
	eachCluster(t, func(t *testing.T, s *kafkatest.Secure) {
		as := func(user string) []string {
			return []string{"--brokers", s.Listeners["SASL"], "--sasl-mechanism", "plain", "--sasl-username", user, "--sasl-password-file", s.PasswordFile}
		}
		for _, without := range []string{"nothing", "--operation Read --topic T.dlq", "--operation Write --topic T", "--operation Read --group G"} {
			t.Run("without "+without, func(t *testing.T) {
				t.Parallel() // each waits for brokers rather than computes
				topic := fmt.Sprintf("replay-acls-%d", time.Now().UnixNano())
				group := topic + "-group"
				s.CreateTopic("SASL", topic)
				file := filepath.Join(t.TempDir(), "few.libsvm")
				write(t, file, "+1 1:1\noops\n-1 1:-1\n")
				must(t, append([]string{"copy", file, "--topic", topic, "-q"}, as("admin")...)...)
				must(t, append([]string{"train", "--topics", topic, "--codec", "libsvm", "--labels", "pm1", "--dlq", "--tolerance", "data", "--until-end", "-q", "--learner", "sbp", "--tune=off", "--warmup", "1"}, as("admin")...)...)

				lines := strings.ReplaceAll(must(t, append([]string{"config", "acls", "dlq", "--", "--topics", topic, "--group", group}, as("trainer")...)...), "--topic "+topic+" ", "--topic "+topic)
				away := strings.NewReplacer("T.dlq", topic+".dlq", "--topic T", "--topic "+topic, "G", group).Replace(without)
				var grants []string
				for line := range strings.Lines(lines) {
					// The operation that a write needs stands before one that is optional.
					line = strings.ReplaceAll(line, "--operation Write --operation DescribeConfigs", "--operation Write")
					if !strings.HasSuffix(line, away+"\n") {
						grants = append(grants, line)
					}
				}
				if want := 3 - min(1, len(without)-len("nothing")); len(grants) != want {
					t.Fatalf("%d grants, want %d: %q", len(grants), want, grants)
				}
				s.Allow("SASL", strings.Join(grants, ""))
				list, _, said := streamsvm(t.Context(), append([]string{"dlq", "list", "--topics", topic}, as("trainer")...)...)
				replay, _, more := streamsvm(t.Context(), append([]string{"dlq", "replay", "--topics", topic, "--from", "earliest", "--group", group, "-q"}, as("trainer")...)...)
				wantList, wantReplay := 0, int(cli.Unavailable)
				switch {
				case without == "nothing":
					wantReplay = 0
				case strings.Contains(without, "T.dlq"):
					wantList = int(cli.Unavailable)
				}
				if list != wantList || replay != wantReplay || wantReplay != 0 && !strings.Contains(more, "uthoriz") && !strings.Contains(more, "does not exist") {
					t.Errorf("dlq list: exit code %d, want %d, %s; dlq replay: exit code %d, want %d, %s", list, wantList, said, replay, wantReplay, more)
				}
				if without != "nothing" {
					t.Log(more)
				}
			})
		}
	})
}
