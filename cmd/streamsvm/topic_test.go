package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/contrib/broker"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
)

// topicJSON is a topic as topic list --json and describe --json print it.
type topicJSON struct {
	Topic      string
	Partitions []struct {
		Partition, Leader int
		Replicas          []int
		InSync            []int `json:"in_sync"`
		First, End        int64
	}
	Config map[string]string
}

// A topic is created, listed, described and deleted.
func TestTopic(t *testing.T) {
	c := newCluster(t)
	a, b := c.name(), c.name()
	out := c.run("topic", "create", b, a, "--partitions", "3", "--topic-config", "retention.ms=123456789", "--topic-config", "cleanup.policy=delete")
	if want := "created " + b + "\ncreated " + a + "\n"; out != want {
		t.Errorf("create prints %q, want %q", out, want)
	}
	kafkatest.Produce(t, c.brokers, examples(a, 5)...)
	listed := func() map[string]topicJSON {
		all := map[string]topicJSON{}
		for _, l := range decode[[]topicJSON](t, c.run("topic", "list", "--json")) {
			all[l.Topic] = l
		}
		return all
	}
	all := listed()
	if len(all[b].Partitions) != 3 || all[a].Partitions[0].End != 5 || all[a].Partitions[2].End != 0 {
		t.Errorf("listed: %+v", all)
	}
	if out := c.run("topic", "list"); !slices.ContainsFunc(strings.Split(out, "\n"), func(l string) bool {
		f := strings.Fields(l)
		return len(f) == 4 && f[0] == a && f[1] == "3" && f[3] == "5"
	}) {
		t.Errorf("list prints\n%s", out)
	}
	one := decode[[]topicJSON](t, c.run("topic", "describe", a, "--json"))
	if len(one) != 1 || one[0].Config["retention.ms"] != "123456789" || len(one[0].Partitions) != 3 || len(one[0].Partitions[1].Replicas) == 0 || len(one[0].Partitions[1].InSync) == 0 {
		t.Errorf("described: %+v", one)
	}
	out = c.run("topic", "describe", a, b)
	for _, want := range []string{a + ": 5 offsets\n", b + ": 0 offsets\n", "retention.ms=123456789\n", "partition  leader  replicas  in sync  first  end\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("describe prints\n%s\nwithout %q", out, want)
		}
	}
	at := strings.Join(c.brokers, ",")
	for _, bad := range []struct {
		args string
		code cli.Code
		want string
	}{
		{"create " + a, cli.Unavailable, "topic create " + a + ": it exists already"},
		{"describe nosuch", cli.Unavailable, "topic describe nosuch: it does not exist"},
		{"delete " + b + " nosuch", cli.Unavailable, "topic delete nosuch: it does not exist"}, // and b is deleted
		{"delete", cli.Usage, "topic delete needs the name of a topic"},
		{"list x", cli.Usage, "topic list takes no names"},
		{"list --partitions 3", cli.Usage, "--partitions: topic list has no such flag"},
		{"create x --json", cli.Usage, "--json: topic create has no such flag"},
		{"create x --partitions -1", cli.Usage, `invalid argument "-1" for "--partitions"`},
		{"remove x", cli.Usage, `topic has no "remove"`},
	} {
		code, _, said := streamsvm(t.Context(), append([]string{"topic", "--brokers", at}, strings.Fields(bad.args)...)...)
		if cli.Code(code) != bad.code || !strings.Contains(lastLine(said), bad.want) {
			t.Errorf("topic %s: exit code %d, %s", bad.args, code, said)
		}
	}
	if all := listed(); slices.Contains(slices.Collect(maps.Keys(all)), b) || len(all[a].Partitions) != 3 {
		t.Errorf("listed after the deletion: %+v", all)
	}
	if out := c.run("topic", "delete", a); out != "deleted "+a+"\n" {
		t.Errorf("delete prints %q", out)
	}
	if code, _, said := streamsvm(t.Context(), "topic", "list", "--brokers", "127.0.0.1:1,127.0.0.1:2"); cli.Code(code) != cli.Unavailable || !strings.Contains(said, "nothing listens there") {
		t.Errorf("no broker: exit code %d, %s", code, said)
	}
}

// The flags for logins apply, and what a user may not do is said in words.
func TestTopicLogin(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, "pass")
	at := embedded(t, broker.Options{More: kafkatest.Users([]kafkatest.User{
		{Mechanism: "SCRAM-SHA-512", Name: "admin", Password: "pass", Super: true},
		{Mechanism: "PLAIN", Name: "reader", Password: "pass", Allow: []kafkatest.Grant{{Resource: "TOPIC", Name: "clicks", Operation: "READ"}}},
	}...)})
	admin := []string{"--brokers", at[0], "--sasl-mechanism", "scram-sha-512", "--sasl-username", "admin", "--sasl-password-file", secret}
	reader := []string{"--brokers", at[0], "--sasl-mechanism", "plain", "--sasl-username", "reader", "--sasl-password-file", secret}
	must(t, append([]string{"topic", "create", "clicks", "hidden"}, admin...)...)
	if out := must(t, append([]string{"topic", "list"}, reader...)...); !strings.Contains(out, "clicks") || strings.Contains(out, "hidden") {
		t.Errorf("a user who may read clicks sees\n%s", out)
	}
	if code, _, said := streamsvm(t.Context(), append([]string{"topic", "create", "more"}, reader...)...); cli.Code(code) != cli.Unavailable || !strings.Contains(said, "topic create more: TOPIC_AUTHORIZATION_FAILED") {
		t.Errorf("exit code %d, %s", code, said)
	}
	if code, _, said := streamsvm(t.Context(), "topic", "list", "--brokers", at[0]); cli.Code(code) != cli.Unavailable || !strings.Contains(said, "sasl") {
		t.Errorf("without a login: exit code %d, %s", code, said)
	}
}
