package main

import (
	"crypto/tls"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/streamsvm/streamsvm/contrib/broker"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// examples are n good records for partition 0 of a topic.
func examples(topic string, n int) []stream.Record {
	var recs []stream.Record
	for i := range n {
		recs = append(recs, stream.Record{Topic: topic, Value: fmt.Appendf(nil, `{"x":[%d,1],"y":%d}`, i%7, 1-2*(i%2))})
	}
	return recs
}

// embedded starts a broker with the topics that the tests of this file use.
func embedded(t *testing.T, o broker.Options) []string {
	t.Helper()
	b, err := broker.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return []string{b.Addr()}
}

// TestDoctor plants one fault each and wants it to be named, alone, with what
// to do about it.
func TestDoctor(t *testing.T) {
	const user, pass = "trainer", "right-secret"
	secret := filepath.Join(t.TempDir(), "secret")
	wrong := filepath.Join(t.TempDir(), "wrong")
	for path, text := range map[string]string{secret: pass, wrong: "wrong-secret"} {
		write(t, path, text)
	}
	ca, foreign := kafkatest.NewAuthority(t, "our CA"), kafkatest.NewAuthority(t, "another CA")
	grants := []kafkatest.Grant{
		{Resource: "TOPIC", Name: "clicks", Operation: "READ"}, {Resource: "TOPIC", Name: "models", Operation: "READ"},
		{Resource: "TOPIC", Name: "models", Operation: "WRITE"}, {Resource: "TOPIC", Name: "models", Operation: "DESCRIBE_CONFIGS"},
		{Resource: "TOPIC", Name: "clicks", Operation: "DESCRIBE_CONFIGS"}, {Resource: "GROUP", Name: "progress", Operation: "READ"},
		{Resource: "TRANSACTIONAL_ID", Name: "streamsvm.model.models.model", Operation: "WRITE"},
	}
	// One mechanism for each role, since a user has one password.
	secured := embedded(t, broker.Options{More: kafkatest.Users([]kafkatest.User{
		{Mechanism: "SCRAM-SHA-512", Name: "admin", Password: pass, Super: true},
		{Mechanism: "PLAIN", Name: user, Password: pass, Allow: grants},
		{Mechanism: "PLAIN", Name: "nobody", Password: pass},
		{Mechanism: "PLAIN", Name: "reader", Password: pass, Allow: slices.Concat(grants[:2], grants[len(grants)-1:])},
	}...)})
	must(t, "generate", "moons", "--count", "50", "--topic", "clicks", "--partitions", "1", "-q", "--brokers", secured[0],
		"--sasl-mechanism", "scram-sha-512", "--sasl-username", "admin", "--sasl-password-file", secret)
	login := kafkaio.ScramSHA512("admin", pass)
	if _, err := kafkaio.CreateTopic(t.Context(), kafkaio.Config{Brokers: secured, SASL: login},
		kafkaio.TopicSpec{Name: "models", Partitions: 1, Config: map[string]string{"cleanup.policy": "compact"}}); err != nil {
		t.Fatal(err)
	}
	as := func(user, file string) []string {
		return []string{"--brokers", secured[0], "--sasl-mechanism", "plain", "--sasl-username", user, "--sasl-password-file", file}
	}
	encrypted := embedded(t, broker.Options{TLS: &tls.Config{Certificates: []tls.Certificate{ca.Issue("localhost", time.Hour).TLS}}})
	plain := embedded(t, broker.Options{})
	kafkatest.Create(t, plain, "clicks", 2, nil)
	kafkatest.Produce(t, plain, examples("clicks", 50)...)
	kafkatest.Create(t, plain, "models", 1, map[string]string{"cleanup.policy": "compact"})
	kafkatest.Create(t, plain, "fading", 1, map[string]string{"cleanup.policy": "delete", "retention.ms": "86400000"})
	kafkatest.Create(t, plain, "small", 1, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "100000"})
	kafkatest.Create(t, plain, "text", 1, nil)
	kafkatest.Produce(t, plain, stream.Record{Topic: "text", Value: []byte("+1 1:1")}, stream.Record{Topic: "text", Value: []byte("-1 1:2")})
	kafkatest.Create(t, plain, "cut", 1, nil)
	kafkatest.Produce(t, plain, examples("cut", 60)...)
	behind := filepath.Join(t.TempDir(), "state")
	must(t, "train", "--brokers", plain[0], "--topics", "cut", "--until-end", "--checkpoint", behind, "--learner", "sbp", "--tune=off", "--warmup", "10", "-q")
	kafkatest.Produce(t, plain, examples("cut", 60)...)
	kafkatest.DeleteRecords(t, plain, "cut", 0, 100)
	kafkatest.Create(t, plain, "changed", 1, nil)
	schemed := filepath.Join(t.TempDir(), "state")
	for _, a := range []string{"%d", `{"b":%d}`} {
		for i := range 60 {
			kafkatest.Produce(t, plain, stream.Record{Topic: "changed", Value: fmt.Appendf(nil, `{"a":`+a+`,"y":%d}`, i%7, i%2)})
		}
		if a == "%d" {
			must(t, "train", "--brokers", plain[0], "--topics", "changed", "--until-end", "--checkpoint", schemed, "--learner", "sbp", "--tune=off", "--warmup", "10", "-q")
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close() // nothing listens there now
	locked := t.TempDir()
	write(t, filepath.Join(locked, "file"), "")

	at := func(addr ...string) []string { return []string{"--brokers", strings.Join(addr, ",")} }
	good := []string{"--topics", "clicks", "--model-topic", "models", "--learner", "sbp", "--tune=off", "--warmup", "10"}
	for _, c := range []struct {
		name string
		args []string
		want string // "": no fault
		todo string
	}{
		{"nothing", at(plain...), "", ""},
		{"nothing, with authentication", append(as(user, secret), "--group", "progress"), "", ""},
		{"name", at("kafka.invalid:9092"), "broker kafka.invalid:9092: resolve: the name kafka.invalid cannot be resolved", "check the spelling"},
		{"port", at(free.Addr().String()), "connect: nothing listens there (connection refused)", "check the port"},
		{"tls not set", at(encrypted...), "protocol: ", "set tls: true"},
		{"authority", append(at(encrypted...), "--tls", "--tls-ca", foreign.File), "tls: the broker's certificate is signed by an authority that is not trusted (CN=our CA)", "set tls-ca"},
		{"password", as(user, wrong), "sasl: the broker refuses user name or password", "check sasl-username"},
		{"mechanism", []string{"--brokers", secured[0], "--sasl-mechanism", "scram-sha-256", "--sasl-username", user, "--sasl-password-file", secret}, "sasl: ", "check sasl-username, the password, and sasl-mechanism"},
		{"no authentication", at(secured...), "use: the broker closes the connection at the first request", "set sasl-mechanism"},
		{"advertised listener", at(misadvertised(t, free.Addr().String())), "advertised listener " + free.Addr().String() + ": broker 0 tells clients to find it there, but connect: nothing listens there", "set advertised.listeners"},
		{"topic", append(at(plain...), "--topics", "klicks"), `topic klicks: it does not exist; did you mean "clicks"?`, "kafka-topics.sh --bootstrap-server " + plain[0] + " --create --topic klicks"},
		{"partition", append(at(plain...), "--partitions", "5"), "topic clicks: it has no partition 5, only 2", ""},
		{"deleted models", append(at(plain...), "--model-topic", "fading"), "topic fading: its cleanup.policy is delete, and must be compact", "--entity-name fading --add-config cleanup.policy=compact"},
		{"record limit", append(at(plain...), "--model-topic", "small"), "topic small: its max.message.bytes is 100000, and must be 925696 for records of 921600 bytes and a header", "max.message.bytes=925696"},
		{"codec", append(at(plain...), "--topics", "text"), "records: none of the first 2 can be read as json: text/0 offset 0: ", "-> streamsvm train --topics text --codec libsvm "},
		{"retention", append(at(plain...), "--topics", "cut", "--checkpoint", behind, "--model-topic", ""), "topic cut partition 0: retention has overtaken the checkpoint: it continues at offset 60, but the topic begins at 100 now; 40 records are lost", "--on-out-of-range earliest"},
		{"other settings", append(at(plain...), "--topics", "cut", "--checkpoint", behind, "--model-topic", "", "--set", "c=0.7", "--on-out-of-range", "earliest"), "checkpoint " + behind + ": ", "use the settings that it was written with"},
		{"schema of the checkpoint", append(at(plain...), "--topics", "changed", "--checkpoint", schemed, "--model-topic", ""), "changed/0 offset 60: feature, a: an object, where the schema has numeric", "--restart finds them anew"},
		{"checkpoint directory", append(at(plain...), "--checkpoint", filepath.Join(locked, "file")), "is not a directory", ""},
		{"no permission at all", as("nobody", secret), "topic clicks: user nobody may not even see it", "--add --allow-principal User:nobody --operation Read --topic clicks"},
		{"no permission to write", as("reader", secret), "topic models: user reader has no permission WRITE, which it needs to publish the model", "--add --allow-principal User:reader --operation Write --topic models"},
		{"no permission on the model", append(as(user, secret), "--model-name", "other"), "transactions: user trainer has no permission WRITE on transactional id streamsvm.model.models.other", "--operation Write --transactional-id streamsvm.model.models.other"},
		{"too few brokers for transactions", at(replicating(t, 3)...), "transactions: transaction.state.log.replication.factor is 3 at broker 0, and there are 1 brokers", "set transaction.state.log.replication.factor=1"},
		{"no permission for the group", append(as(user, secret), "--group", "other"), "group other: user trainer has no permission READ", "--operation Read --group other"},
		{"learner", append(at(plain...), "--learner", "sbpp"), `settings: --learner: no learner "sbpp"`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "state")
			args := append([]string{"doctor", "--codec", "json", "--checkpoint", state}, append(slices.Clip(good), c.args...)...)
			// Lists collect what is given several times; the last one counts here.
			args = lastOf(args, "--topics")
			code, out, errText := streamsvm(t.Context(), args...)
			var bad []string
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "FAIL") {
					bad = append(bad, line)
				}
			}
			if strings.Contains(out+errText, "-secret") {
				t.Errorf("a password is told:\n%s%s", out, errText)
			}
			if _, err := os.Stat(state); !os.IsNotExist(err) {
				t.Errorf("the checkpoint directory has been made")
			}
			if c.want == "" {
				if code != 0 || len(bad) > 0 {
					t.Errorf("exit code %d, %s\n%s", code, errText, out)
				}
				return
			}
			if code != int(cli.Findings) || len(bad) == 0 || !strings.Contains(bad[0], c.want) || !strings.Contains(out, c.todo) {
				t.Fatalf("exit code %d, %s\n%swant %s\n-> %s", code, errText, out, c.want, c.todo)
			}
			if len(bad) > 1 && !strings.HasPrefix(c.name, "no permission at all") && c.name != "other settings" {
				t.Errorf("one fault, %d findings:\n%s", len(bad), strings.Join(bad, ""))
			}
		})
	}
}

// lastOf removes all but the last occurrence of a flag with its value.
func lastOf(args []string, name string) []string {
	last := -1
	for i, a := range args {
		if a == name {
			last = i
		}
	}
	var out []string
	for i := 0; i < len(args); i++ {
		if args[i] == name && i != last {
			i++
			continue
		}
		out = append(out, args[i])
	}
	return out
}

// misadvertised starts a broker that tells clients to find it elsewhere.
func misadvertised(t *testing.T, elsewhere string) string {
	t.Helper()
	c := kafkatest.Fake(t, kfake.NumBrokers(1))
	host, port, err := net.SplitHostPort(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	var n int32
	fmt.Sscan(port, &n)
	c.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		b := kmsg.NewMetadataResponseBroker()
		b.Host, b.Port = host, n
		resp.Brokers = append(resp.Brokers, b)
		id := "misadvertised"
		resp.ClusterID = &id
		for _, t := range req.(*kmsg.MetadataRequest).Topics {
			answer := kmsg.NewMetadataResponseTopic()
			answer.Topic = t.Topic
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Replicas, p.ISR = []int32{0}, []int32{0}
			answer.Partitions = append(answer.Partitions, p)
			resp.Topics = append(resp.Topics, answer)
		}
		return resp, nil, true
	})
	return c.ListenAddrs()[0]
}

// replicating starts a broker that says that it wants its log of transactions on
// so many brokers.
func replicating(t *testing.T, factor int) []string {
	t.Helper()
	c := kafkatest.Fake(t, kfake.NumBrokers(1))
	kafkatest.Create(t, c.ListenAddrs(), "clicks", 2, nil)
	kafkatest.Produce(t, c.ListenAddrs(), examples("clicks", 50)...)
	kafkatest.Create(t, c.ListenAddrs(), "models", 1, map[string]string{"cleanup.policy": "compact"})
	c.ControlKey(int16(kmsg.DescribeConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		ask := req.(*kmsg.DescribeConfigsRequest).Resources[0]
		if ask.ResourceType != kmsg.ConfigResourceTypeBroker {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
		r := kmsg.NewDescribeConfigsResponseResource()
		r.ResourceType, r.ResourceName = ask.ResourceType, ask.ResourceName
		one, value := kmsg.NewDescribeConfigsResponseResourceConfig(), fmt.Sprint(factor)
		one.Name, one.Value = "transaction.state.log.replication.factor", &value
		r.Configs = append(r.Configs, one)
		resp.Resources = append(resp.Resources, r)
		return resp, nil, true
	})
	return c.ListenAddrs()
}

// TestDryRun: all is tried and nothing is changed, by train's exit codes.
func TestDryRun(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic := kafkatest.Topic(t, brokers, 1, nil)
	recs := examples(topic, 40)
	recs[7].Value = []byte("?")
	kafkatest.Produce(t, brokers, recs...)
	models := kafkatest.Name(t, brokers)
	dir := t.TempDir()
	base := []string{"train", "--dry-run", "--brokers", strings.Join(brokers, ","), "--topics", topic, "--model-topic", models, "--group", "g-" + models,
		"--checkpoint", filepath.Join(dir, "a", "state"), "--record", filepath.Join(dir, "run.ssr"), "--dlq", "--learner", "sbp", "--tune=off", "--warmup", "10"}
	for _, c := range []struct {
		args []string
		code cli.Code
		want string
	}{
		{[]string{"--tolerance", "data"}, cli.OK, "all is well"},
		{nil, cli.Data, "1 of the first 40 cannot be read as json: " + topic + "/0 offset 7"},
		{[]string{"--tolerance", "data", "--set", "gama=1"}, cli.Usage, `did you mean "gamma"`},
		{[]string{"--tolerance", "data", "--topics", "no-" + topic}, cli.Unavailable, "it does not exist"},
	} {
		code, out, errText := streamsvm(t.Context(), lastOf(append(slices.Clip(base), c.args...), "--topics")...)
		if code != int(c.code) || !strings.Contains(out+errText, c.want) {
			t.Errorf("%v: exit code %d, want %d\n%s%swant %s", c.args, code, c.code, out, errText, c.want)
		}
	}
	var files []string
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		files = append(files, path)
		return err
	}); err != nil || len(files) != 1 {
		t.Errorf("there are files: %v, %v", files, err)
	}
	if got := kafkatest.Committed(t, brokers, "g-"+models, topic); len(got) > 0 {
		t.Errorf("the group has been told %v", got)
	}
	if all := strings.Join(kafkatest.Topics(t, brokers), " "); strings.Contains(all, models) || strings.Contains(all, topic+".dlq") {
		t.Errorf("topics have been made: %s", all)
	}
}

func TestACLs(t *testing.T) {
	out := must(t, "config", "acls", "--principal", "CN=x", "--", "--brokers", "k:9092", "--topics", "a,b c", "--model-topic", "m", "--dlq", "--group", "g")
	want := `kafka-acls.sh --bootstrap-server k:9092 --add --allow-principal User:CN=x --operation Read --topic a
kafka-acls.sh --bootstrap-server k:9092 --add --allow-principal User:CN=x --operation Read --topic 'b c'
kafka-acls.sh --bootstrap-server k:9092 --add --allow-principal User:CN=x --operation Read --operation Write --operation Create --operation DescribeConfigs --topic m
kafka-acls.sh --bootstrap-server k:9092 --add --allow-principal User:CN=x --operation Read --operation Write --operation Create --operation DescribeConfigs --topic a.dlq
kafka-acls.sh --bootstrap-server k:9092 --add --allow-principal User:CN=x --operation Read --operation Write --operation Create --operation DescribeConfigs --topic 'b c.dlq'
kafka-acls.sh --bootstrap-server k:9092 --add --allow-principal User:CN=x --operation Write --transactional-id streamsvm.model.m.model
kafka-acls.sh --bootstrap-server k:9092 --add --allow-principal User:CN=x --operation Write --transactional-id streamsvm.letters.a.dlq. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server k:9092 --add --allow-principal User:CN=x --operation Read --group g
`
	if out != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
	out = must(t, "config", "acls", "predict", "--principal", "x", "--", "--topics", "a", "--model-topic", "m", "--predictions-topic", "p", "--errors-topic", "e", "--tls")
	if n := strings.Count(out, "\n"); n != 4 || strings.Count(out, "Write") != 2 || !strings.Contains(out, "--operation DescribeConfigs --topic e\n") || !strings.Contains(out, "--command-config") {
		t.Errorf("for predict:\n%s", out)
	}
	out = must(t, "config", "acls", "sift", "--principal", "x", "--", "--topics", "a", "--model-topic", "m", "--distilled-topic", "d", "--group", "g")
	if n := strings.Count(out, "\n"); n != 5 || !strings.Contains(out, "--operation Write --operation Create --topic d\n") || !strings.Contains(out, "--operation Read --group g\n") ||
		!strings.Contains(out, "--operation Write --operation Describe --transactional-id g- --resource-pattern-type prefixed\n") {
		t.Errorf("for predict with a group:\n%s", out)
	}
	if out := must(t, "config", "acls", "train", "--principal", "t", "--", "--topics", "a", "--checkpoint", "kafka://s", "--predictions-topic", "p"); !strings.Contains(out, "--operation Write --operation Create --topic p\n") {
		t.Errorf("for predictions:\n%s", out)
	}
	if code, _, errText := streamsvm(t.Context(), "config", "acls", "train", "--", "--topics", "a"); code != int(cli.Usage) || !strings.Contains(errText, "--principal") {
		t.Errorf("without a principal: exit code %d, %s", code, errText)
	}
}
