package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/app/cli"
)

// writeConfig writes a configuration file.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	write(t, path, text)
	return path
}

// good is a configuration without a fault, the ground for those with one.
const good = `brokers: [kafka-1:9092, kafka-2:9092]
topics: clicks
codec: libsvm
labels: pm1
model-topic: models
checkpoint: /var/lib/streamsvm
checkpoint-interval: 10s
learner: sbp
set: {c: 10, gamma: 0.5}
train:
  listen: 127.0.0.1:9100
  tolerance: data
`

// TestConfigTypos: 30 typical mistakes, each found in its line, with the key
// and, where there is one, what is nearest to it that would do.
func TestConfigTypos(t *testing.T) {
	path := writeConfig(t, good)
	if out := must(t, "config", "lint", path); !strings.Contains(out, "no problem") {
		t.Errorf("a good configuration: %s", out)
	}
	for i, c := range []struct{ from, to, want string }{
		{"brokers:", "broker:", `1: no setting "broker"; did you mean "brokers"?`},
		{"brokers:", "bootstrap.servers:", `1: no setting "bootstrap.servers"; did you mean "brokers"?`},
		{"brokers:", "BROKERS:", `1: no setting "BROKERS"; did you mean "brokers"?`},
		{"model-topic:", "model_topic:", `5: no setting "model_topic"; did you mean "model-topic"?`},
		{"model-topic:", "modelTopic:", `5: no setting "modelTopic"; did you mean "model-topic"?`},
		{"checkpoint:", "checkpiont:", `6: no setting "checkpiont"; did you mean "checkpoint"?`},
		{"checkpoint-interval:", "checkpoint-intervall:", `7: no setting "checkpoint-intervall"; did you mean "checkpoint-interval"?`},
		{"learner: sbp\nset: {c: 10, gamma: 0.5}", "lerner: sbp", `8: no setting "lerner"; did you mean "learner"?`},
		{"train:", "trian:", `10: no setting or command "trian"; did you mean "train"?`},
		{"  tolerance:", "  tolerence:", `12: no setting "tolerence"; did you mean "tolerance"?`},
		{"  tolerance: data", "  model: x", `12: the command train has no setting "model"; did you mean "model-name"?`},
		{"topics:", "topic:", `2: the command train has no setting "topic"; did you mean "topics"?`},
		{"topics: clicks", "topics:", `2: topics: want a value`},
		{"topics: clicks", "topics: ${TOPIC}", `2: topics: the environment has no variable TOPIC`},
		{"topics: clicks", "topics: {clicks: 1}", `2: topics: want a single value`},
		{"topics: clicks", "topics: clicks\nbrokers: other:9092", `3: "brokers" is set in line 1 already`},
		{"topics: clicks", "topics: [clicks", `not YAML: did not find expected ',' or ']'`},
		{"topics: clicks", "topics:clicks", `not YAML: could not find expected ':'`},
		{"codec: libsvm", "codec: libsvmm", `3: codec = "libsvmm": want one of libsvm, json, msgpack, csv, avro, protobuf; did you mean "libsvm"?`},
		{"labels: pm1", "labels: 0/1", `:4: labels: option Labels is "0/1", want pm1, 01, 12, or two labels with a comma between them, the negative one first`},
		{"interval: 10s", "interval: 10", `7: checkpoint-interval = "10": the unit is missing; did you mean "10s"?`},
		{"interval: 10s", "interval: 10 s", `7: checkpoint-interval = "10 s": want a time with its unit, such as 500ms, 10s or 1h30m; did you mean "10s"?`},
		{"learner: sbp", "learner: sbpp", `did you mean "sbp"?`},
		{"gamma:", "gama:", `9: set.gama: learner sbp: no option "gama"; did you mean "gamma"?`},
		{"c: 10", "c: -1", `9: set.c: learner sbp: option c = "-1": outside`},
		{"gamma: 0.5", "gamma: wide", `9: set.gamma: learner sbp: option gamma = "wide": not a number`},
		{"brokers: [kafka-1:9092", "brokers: [kafka-1", `1: brokers: kafka: broker address "kafka-1" is not host:port`},
		{"listen: 127.0.0.1:9100", "listen: 9100", `11: listen: "9100" is not HOST:PORT; did you mean "127.0.0.1:9100"?`},
		{"tolerance: data", "tolerance: Data", `12: tolerance = "Data": want one of none, data, all; did you mean "data"?`},
		{"codec: libsvm", "tls: yes", `3: tls = "yes": want true or false`},
		{"codec: libsvm", "max-record-bytes: 64KiB", `3: max-record-bytes = "64KiB": want a whole number; did you mean 65536?`},
		{"codec: libsvm", "start: yesterday", `3: start: "yesterday" is not earliest, latest`},
		{"codec: libsvm", "tls-ca: /does/not/exist.pem", `tls: certificates are given, but connections are not encrypted`},
		{"codec: libsvm", "sasl-mechanism: SCRAM-SHA-512", `3: sasl-mechanism = "SCRAM-SHA-512": want one of none, plain, scram-sha-256, scram-sha-512, oauthbearer, aws-msk-iam; did you mean "scram-sha-512"?`},
		{"codec: libsvm", "sasl-username: me", `3: sasl-username: a user is given, but no --sasl-mechanism`},
		{"codec: libsvm", "password: secret", `3: no setting "password"; did you mean "sasl-password"?`},
		{"checkpoint: /var/lib/streamsvm\n", "", "checkpoint: model-topic needs it"},
		{"model-topic: models", "model-topic: clicks", "5: model-topic: clicks is a topic of examples too"},
	} {
		text := strings.Replace(good, c.from, c.to, 1)
		if text == good {
			t.Fatalf("typo %d changes nothing", i)
		}
		path := writeConfig(t, text)
		code, out, errText := streamsvm(t.Context(), "config", "lint", path)
		out = strings.ReplaceAll(out, path, "")
		if code != int(cli.Findings) || !strings.Contains(errText, "problem") {
			t.Errorf("%q: exit code %d, %s", c.to, code, errText)
		}
		if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 1 || !strings.Contains(lines[0], c.want) {
			t.Errorf("%q: got\n%swant %s", c.to, out, c.want)
		}
	}
}

// TestConfigShow: the origin of every value, and no secret.
func TestConfigShow(t *testing.T) {
	path := writeConfig(t, good+"sasl-mechanism: plain\nsasl-username: me\nsasl-password: hunter2\n")
	var out, errText bytes.Buffer
	env := map[string]string{"STREAMSVM_SEED": "7", "STREAMSVM_CONFIG": path}
	code := program().Main(t.Context(), []string{"config", "show", "train", "--", "--learner", "scs", "--set=gamma=1"}, cli.Stdio{
		Out: &out, Err: &errText, Getenv: func(k string) (string, bool) { v, ok := env[k]; return v, ok },
	})
	if code != 0 || strings.Contains(out.String()+errText.String(), "hunter2") {
		t.Fatalf("exit code %d, %s%s", code, errText.String(), out.String())
	}
	got := map[string]string{}
	for line := range strings.Lines(out.String()) {
		f := strings.Fields(line)
		got[f[0]] = strings.Join(f[1:], " ")
	}
	for name, want := range map[string]string{
		"learner": "scs --learner", "set.gamma": "1 --set", "set.c": "10 PATH:9", "seed": "7 STREAMSVM_SEED", "listen": "127.0.0.1:9100 PATH:11",
		"brokers": "kafka-1:9092,kafka-2:9092 PATH:1", "preset": "default default", "sasl-password": "<redacted> PATH:15", "group": "- default",
	} {
		if want = strings.ReplaceAll(want, "PATH", path); got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if len(got) < 40 {
		t.Errorf("only %d settings", len(got))
	}
	for _, args := range [][]string{{"config", "shew"}, {"config", "show", "trian"}, {"config", "show", "train", "--learner"}, {"config", "lint"}, {"config", "reference", "x"}} {
		if code, _, errText := streamsvm(t.Context(), args...); code != int(cli.Usage) {
			t.Errorf("%v: exit code %d, %s", args, code, errText)
		}
	}
}
