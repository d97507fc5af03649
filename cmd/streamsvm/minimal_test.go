package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
)

// content tells whether train has ended without a complaint.
func content(code int, said string) bool { return code == 0 && !strings.Contains(said, "level=WARN") }

// TestSecureACLsAreMinimal takes each permission that acls prints away, one at a
// time: doctor names the one that is missing, and train does not end as if all
// were well.
func TestSecureACLsAreMinimal(t *testing.T) {
	eachCluster(t, func(t *testing.T, s *kafkatest.Secure) {
		login := []string{"--brokers", s.Listeners["SASL"], "--sasl-mechanism", "plain", "--sasl-username", "trainer", "--sasl-password-file", s.PasswordFile}
		lines := func(base string) (out []string, settings []string) {
			settings = append([]string{"--topics", base + "-examples", "--model-topic", base + "-models", "--dlq", "--tolerance", "data", "--group", base + "-group"}, login...)
			for line := range strings.Lines(must(t, append([]string{"config", "acls", "--"}, settings...)...)) {
				words := strings.Fields(line)
				var common, ops []string
				for i := 0; i < len(words); i++ {
					if words[i] == "--operation" {
						i++
						ops = append(ops, words[i])
						continue
					}
					common = append(common, words[i])
				}
				for _, op := range ops {
					out = append(out, strings.Join(common, " ")+" --operation "+op+"\n")
				}
			}
			return out, settings
		}
		all, _ := lines("x")
		if len(all) < 10 {
			t.Fatalf("only %d permissions: %q", len(all), all)
		}
		for i, line := range all {
			what := strings.TrimSpace(line[strings.Index(line, "trainer")+len("trainer"):])
			op := line[strings.LastIndex(line, " ")+1 : len(line)-1]
			t.Run(what, func(t *testing.T) {
				t.Parallel() // each waits for brokers rather than computes
				base := fmt.Sprintf("minimal-%d-%d", i, time.Now().UnixNano())
				grants, settings := lines(base)
				topic := base + "-examples"
				s.CreateTopic("SASL", topic)
				s.Allow("SASL", must(t, append([]string{"config", "acls", "predict", "--principal", "User:trainer", "--", "--predictions-topic", topic}, login...)...))
				bad := filepath.Join(t.TempDir(), "few.libsvm")
				write(t, bad, strings.Repeat("+1 1:1\n-1 1:-1\n", 60)+"oops\n")
				must(t, append([]string{"copy", bad, "--topic", topic, "-q", "--codec", "libsvm"}, login...)...)

				s.Allow("SASL", strings.Join(grants[:i], "")+strings.Join(grants[i+1:], ""))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				state := filepath.Join(t.TempDir(), "state")
				settings = append(settings, "--checkpoint", state, "--checkpoint-every", "30", "--learner", "sbp", "--tune=off", "--warmup", "50", "--codec", "libsvm")

				// Doctor cannot see what may be done to a topic before it is there.
				doctor := func() bool {
					_, out, errText := streamsvm(ctx, append([]string{"doctor"}, settings...)...)
					return strings.Contains(out+errText, "--operation "+op)
				}
				seen := doctor()
				code, out, errText := streamsvm(ctx, append([]string{"train", "--until-end"}, settings...)...)
				said := out + errText
				seen = doctor() || seen
				if content(code, said) {
					// Some are needed by a run that goes on after a crash.
					all, err := filepath.Glob(filepath.Join(state, "*.ssc"))
					if err != nil || len(all) < 2 {
						t.Fatalf("checkpoints %q, %v", all, err)
					}
					if err := os.Remove(slices.Max(all)); err != nil {
						t.Fatal(err)
					}
					code, out, errText = streamsvm(ctx, append([]string{"train", "--until-end"}, settings...)...)
					said += out + errText
				}
				if content(code, said) {
					t.Errorf("train does well without it:\n%s", said)
				}
				if !seen {
					t.Errorf("doctor does not see that it is missing; train says\n%s", said)
				}
			})
		}
	})
}
