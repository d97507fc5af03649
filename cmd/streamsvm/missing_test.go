package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
)

// TestSubscribeOnceWithoutModel: a topic that holds no model, or not that one,
// is not waited for forever, and a topic that holds it is not waited at at all.
func TestSubscribeOnceWithoutModel(t *testing.T) {
	c := newCluster(t)
	topic, models := kafkatest.Topic(t, c.brokers, 1, nil), kafkatest.Topic(t, c.brokers, 1, map[string]string{"cleanup.policy": "compact"})
	at := []string{"--brokers", strings.Join(c.brokers, ",")}
	once := append([]string{"subscribe", "--model-topic", models, "--once"}, at...)
	for _, args := range [][]string{{"--topic-wait", "100ms"}, {"--topic-wait", "0s", "--model-name", "other"}} {
		code, out, errText := streamsvm(t.Context(), append(once, args...)...)
		want := "topic " + models + " holds no complete model"
		if code != int(cli.Unavailable) || out != "" || !strings.Contains(errText, want) || !strings.Contains(errText, args[1]+" (--topic-wait)") {
			t.Errorf("%v: exit code %d, %s%s", args, code, out, errText)
		}
	}
	kafkatest.Produce(t, c.brokers, examples(topic, 50)...)
	must(t, append([]string{"train", "--topics", topic, "--until-end", "--model-topic", models, "--checkpoint", t.TempDir(), "--learner", "pegasos", "--tune=off", "--warmup", "10", "-q"}, at...)...)
	if out := must(t, append(once, "--topic-wait", "0s")...); !strings.HasPrefix(out, "model version ") {
		t.Errorf("with a model: %s", out)
	}
	if code, _, errText := streamsvm(t.Context(), append(once, "--topic-wait", "100ms", "--model-name", "other")...); code != int(cli.Unavailable) || !strings.Contains(errText, "no complete model other") {
		t.Errorf("with another model: exit code %d, %s", code, errText)
	}
}

// TestNothingMadeForMissingTopics: without anything to read train makes no
// topic; without a topic to write to the flag that makes it is named.
func TestNothingMadeForMissingTopics(t *testing.T) {
	t.Parallel() // it waits, mostly
	c := newCluster(t)
	missing, models := c.name(), c.name()
	at := []string{"--brokers", strings.Join(c.brokers, ",")}
	for _, args := range [][]string{
		{"train", "--topics", missing, "--until-end", "--model-topic", models, "--checkpoint", filepath.Join(t.TempDir(), "state"), "--dlq", "--tolerance", "data"},
		{"generate", "moons", "--count", "3", "--topic", missing},
		{"produce", moons(t, "few.libsvm", 3, 0), "--topic", missing},
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
