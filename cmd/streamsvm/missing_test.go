package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
)

// TestWithoutModel: a topic that holds no model, or not that one, or does not
// exist, is not waited at forever; what it holds is said; and a topic that holds
// the model is not waited at at all.
func TestWithoutModel(t *testing.T) {
	c := newCluster(t)
	topic, models := kafkatest.Topic(t, c.brokers, 1, nil), kafkatest.Topic(t, c.brokers, 1, map[string]string{"cleanup.policy": "compact"})
	empty, missing := kafkatest.Topic(t, c.brokers, 1, nil), c.name()
	at := []string{"--brokers", strings.Join(c.brokers, ",")}
	kafkatest.Produce(t, c.brokers, examples(topic, 500)...)
	must(t, append([]string{"train", "--topics", topic, "--until-end", "--model-topic", models, "--checkpoint", t.TempDir(), "--learner", "sbp", "--tune=off", "--warmup", "10", "-q"}, at...)...)
	if out := must(t, append([]string{"model", "follow", "--model-topic", models, "--until", "1", "--topic-wait", "0s"}, at...)...); !strings.HasPrefix(out, "model version ") {
		t.Errorf("with a model: %s", out)
	}
	for _, w := range []struct {
		topic string
		args  []string
		want  string
	}{
		{empty, nil, "topic " + empty + " is empty"},
		{topic, nil, "topic " + topic + " holds 500 records, none of them of a model: the first one (partition 0, offset 0) is \"{"},
		{models, []string{"--model-name", "modle"}, "topic " + models + ` holds no model modle, but model; did you mean "model"?`},
		{missing, nil, "topic " + missing + " does not exist, and has not come in"},
	} {
		for _, command := range [][]string{{"model", "follow"}, {"model", "follow", "--until", "1"}, {"predict"}, {"predict", "--listen", "127.0.0.1:0"}} {
			for wait, messages := range map[string]int{"0s": 1, "2.2s": 2} { // what is waited for, and the end
				if messages == 2 && (command[0] != "predict" || w.topic == topic) {
					continue // all commands wait in the same way
				}
				args := slices.Concat(command, at, []string{"-q", "--model-topic", w.topic, "--topic-wait", wait}, w.args)
				t.Run(strings.Join(args, " "), func(t *testing.T) {
					t.Parallel()
					code, out, said := streamsvm(t.Context(), args...)
					if code != int(cli.Unavailable) || out != "" || !strings.Contains(lastLine(said), w.want) || !strings.Contains(lastLine(said), " in "+wait+" (--topic-wait)") {
						t.Errorf("exit code %d, %s%s, want %s", code, out, said, w.want)
					}
					// A busy machine may sleep until the end.
					if n := strings.Count(said, "\n"); n > messages {
						t.Errorf("%d messages, want %d:\n%s", n, messages, said)
					}
				})
			}
		}
	}
}

// TestNothingMadeForMissingTopics: without anything to read train makes no
// topic; without a topic to write to the flag that makes it is named.
func TestNothingMadeForMissingTopics(t *testing.T) {
	c := newCluster(t)
	missing, models := c.name(), c.name()
	at := []string{"--brokers", strings.Join(c.brokers, ",")}
	for _, args := range [][]string{
		{"train", "--topics", missing, "--topic-wait", "0s", "--until-end", "--model-topic", models, "--checkpoint", filepath.Join(t.TempDir(), "state"), "--dlq", "--tolerance", "data"},
		{"generate", "moons", "--count", "3", "--topic", missing},
		{"copy", moons(t, "few.libsvm", 3, 0), "--topic", missing},
	} {
		code, out, errText := streamsvm(t.Context(), slices.Concat(args, at)...)
		if code != int(cli.Unavailable) || !strings.Contains(errText, "topic "+missing+" does not exist") || args[0] != "train" && !strings.Contains(errText, "--partitions N creates it") {
			t.Errorf("%s: exit code %d, %s%s", args[0], code, out, errText)
		}
	}
	for _, name := range kafkatest.Topics(t, c.brokers) {
		if strings.HasPrefix(name, missing) || strings.HasPrefix(name, models) {
			t.Errorf("topic %s has been made", name)
		}
	}
}
