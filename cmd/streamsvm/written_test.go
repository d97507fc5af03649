package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// Two versions of the schema of the same events.
const (
	payments1 = `{"type":"record","name":"Payment","fields":[{"name":"amount","type":"double"},{"name":"country","type":"string"},{"name":"fraud","type":"boolean"}]}`
	payments2 = `{"type":"record","name":"Payment","fields":[{"name":"fraud","type":"boolean"},{"name":"note","type":["null","string"],"default":null},{"name":"country","type":"string"},{"name":"amount","type":["null","double"]}]}`
	// paymentsProto has the payments behind another message.
	paymentsProto = `syntax = "proto3"; message Refund { string why = 1; } message Payment { double amount = 1; string country = 2; bool fraud = 3; }`
)

// payment returns the i-th payment, and whether it is a fraud.
func payment(i int) (amount float64, country string, fraud bool) {
	country = []string{"DE", "FR", "NG"}[i%3]
	amount = float64((i*37)%200) / 2
	return amount, country, amount > 60 || country == "NG" && amount > 30
}

// avroPayments are payments, the later ones of the second schema.
func avroPayments(t *testing.T, topic string, n, first, second int) []stream.Record {
	var recs []stream.Record
	var schemas [2]*avro.Schema
	for i, text := range []string{payments1, payments2} {
		s, err := avro.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		schemas[i] = s
	}
	for i := range n {
		amount, country, fraud := payment(i)
		k, id := 0, first
		if i > n/2 && i%3 > 0 {
			k, id = 1, second
		}
		b, err := schemas[k].AppendEncode(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), map[string]any{"amount": amount, "country": country, "fraud": fraud})
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, stream.Record{Topic: topic, Value: b})
	}
	return recs
}

func protoPayments(topic string, n, id int) (recs []stream.Record) {
	for i := range n {
		amount, country, fraud := payment(i)
		b := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), 2, 2)
		b = protowire.AppendFixed64(protowire.AppendTag(b, 1, protowire.Fixed64Type), math.Float64bits(amount))
		b = protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), country)
		b = protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.VarintType), protowire.EncodeBool(fraud))
		recs = append(recs, stream.Record{Topic: topic, Value: b})
	}
	return recs
}

// byGUID has every fifth record say in a header which schema it has.
func byGUID(t *testing.T, fake *srfake.Registry, recs []stream.Record) {
	for i := 0; i < len(recs); i += 5 {
		r := &recs[i]
		subject := map[byte]string{8: "p", 9: "other"}[r.Value[4]]
		s, ok := fake.GetSchema(subject, 1)
		id, err := codec.ParseSchemaID(s.GUID)
		if !ok || err != nil {
			t.Fatal(s, err)
		}
		head := append([]byte{1}, id.GUID[:]...)
		rest := r.Value[5:]
		if s.Type == sr.TypeProtobuf {
			head, rest = append(head, rest[:2]...), rest[2:]
		}
		r.Headers = []stream.Header{{Key: "__value_schema_id", Value: head}}
		r.Value = rest
	}
}

// TestWrittenEvents is the whole path for records that refer to schemas: training,
// a restart and a replay without the registry, predictions of raw events from the
// topic, and of JSON.
func TestWrittenEvents(t *testing.T) {
	const n = 3000
	for _, name := range []string{"avro", "protobuf"} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			fake := srfake.New(srfake.WithAuth("Basic dTpw"))
			defer fake.Close()
			topic, models, predictions := kafkatest.Topic(t, c.brokers, 2, nil), c.name(), c.name()
			recs := protoPayments(topic, n, 8)
			if name == "avro" {
				recs = avroPayments(t, topic, n, 8, 9)
			}
			fake.SeedSchema("p", 1, 8, sr.Schema{Schema: map[string]string{"avro": payments1, "protobuf": paymentsProto}[name], Type: map[string]sr.SchemaType{"avro": sr.TypeAvro, "protobuf": sr.TypeProtobuf}[name]})
			fake.SeedSchema("other", 1, 9, sr.Schema{Schema: payments2})
			byGUID(t, fake, recs)
			kafkatest.Produce(t, c.brokers, recs...)
			dir := t.TempDir()
			password := filepath.Join(dir, "password")
			write(t, password, "p\n")
			state, recording := filepath.Join(dir, "state"), filepath.Join(dir, "run.ssr")
			registry := []string{"--schema-registry", fake.URL(), "--schema-registry-user", "u", "--schema-registry-password-file", password}
			say := append([]string{"doctor", "--topics", topic, "--codec", name, "--label", "fraud", "--brokers", strings.Join(c.brokers, ",")}, registry...)
			if _, out, _ := streamsvm(t.Context(), say...); !strings.Contains(out, "schema registry: it answers") || !strings.Contains(out, "are events that codec "+name+" reads") {
				t.Errorf("doctor says\n%s", out)
			}
			for verb, want := range map[string]string{"infer": "amount: numeric", "check": fmt.Sprintf("%d records, 0 refused", n)} {
				say := append([]string{"schema", verb, "--topics", topic, "--codec", name, "--label", "fraud"}, registry...)
				if out := c.run(say...); !strings.Contains(out, want) {
					t.Errorf("schema %s prints\n%s, want %q", verb, out, want)
				}
			}
			args := append([]string{"train", "--topics", topic, "--codec", name, "--label", "fraud", "--until-end", "--model-topic", models, "--checkpoint", state, "--record", recording}, learn...)
			c.run(append(args, registry...)...)
			s := newest(t, state)
			if m := s.Meta; m["learned"] != fmt.Sprint(n) || !strings.Contains(m["written_schemas"], "sha256") {
				t.Fatalf("the last checkpoint says %v", m)
			}

			if _, out, _ := streamsvm(t.Context(), append(append(say, "--checkpoint", state), learn[:len(learn)-1]...)...); !strings.Contains(out, "checkpoint "+state+": continues after ") {
				t.Errorf("with the checkpoint, doctor says\n%s", out)
			}

			// Raw events, from the topic and of a request; JSON without a registry.
			c.run(append([]string{"predict", "--model-topic", models, "--topics", topic, "--predictions-topic", predictions, "--until-end", "-q"}, registry...)...)
			right := 0
			for _, r := range kafkatest.ReadAll(t, c.brokers, predictions) {
				var p struct {
					Label, Y any
					Error    string
				}
				if err := json.Unmarshal(r.Value, &p); err != nil || p.Error != "" {
					t.Fatalf("%s: %v", r.Value, err)
				}
				if p.Label == p.Y {
					right++
				}
			}
			if right < n*8/10 {
				t.Errorf("%d of %d predictions are right", right, n)
			}
			lines := filepath.Join(dir, "new.jsonl")
			write(t, lines, `{"amount":99,"country":"NG"}`+"\n"+`{"amount":1,"country":"DE"}`+"\n")
			if out := c.run("predict", "--model-topic", models, "--output", "label", "-q", lines); out != "true\nfalse\n" {
				t.Errorf("predictions of JSON are %q", out)
			}

			// Without the registry.
			fake.Close()
			d := decode[result](t, must(t, append([]string{"replay", recording, "--codec", name, "--label", "fraud", "--json", "-"}, learn...)...))
			if d.StateHash != s.StateHash {
				t.Errorf("the recording gives state %s, the run gave %s", d.StateHash, s.StateHash)
			}
			kafkatest.Produce(t, c.brokers, recs[:500]...)
			c.run(append(args, registry...)...)
			if again := newest(t, state); again.Meta["learned"] != fmt.Sprint(n+500) {
				t.Errorf("the restart has learned %s", again.Meta["learned"])
			}
		})
	}
}

// TestRegistryFaults trains while the registry is away, knows nothing of an id,
// and is not given.
func TestRegistryFaults(t *testing.T) {
	const n = 2000
	c := newCluster(t)
	fake := srfake.New()
	defer fake.Close()
	fake.SeedSchema("p", 1, 8, sr.Schema{Schema: payments1})
	fake.SeedSchema("p", 2, 9, sr.Schema{Schema: payments2})
	var away atomic.Bool
	fake.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if away.Load() && strings.HasSuffix(r.URL.Path, "/9") {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	topic := kafkatest.Topic(t, c.brokers, 1, nil)
	recs := avroPayments(t, topic, n, 8, 9)
	kafkatest.Produce(t, c.brokers, recs...)
	args := func(state string, more ...string) []string {
		return append(append([]string{"train", "--topics", topic, "--codec", "avro", "--label", "fraud", "--until-end", "--checkpoint", state, "--brokers", strings.Join(c.brokers, ",")}, learn...), more...)
	}
	state := filepath.Join(t.TempDir(), "state")
	must(t, args(state, "--schema-registry", fake.URL())...)
	want := newest(t, state)

	// The second schema comes after the first 1,000 records: with the registry
	// away nothing is lost, and nothing is dead.
	away.Store(true)
	f := &faults{t: t, brokers: c.brokers}
	state = filepath.Join(t.TempDir(), "state")
	done, stop := f.serve(args(state, "--schema-registry", fake.URL(), "--tolerance", "data", "--dlq"))
	select {
	case <-done:
		code, text := stop()
		t.Fatalf("it has ended with %d: %s", code, text)
	case <-time.After(time.Second):
	}
	away.Store(false)
	<-done
	if code, text := stop(); code != 0 {
		t.Fatalf("exit code %d: %s", code, text)
	}
	if got := newest(t, state); got.StateHash != want.StateHash || got.Meta["dead"] != "0" {
		t.Errorf("after a wait the state is %s with %s dead, want %s", got.StateHash, got.Meta["dead"], want.StateHash)
	}

	// A wait can be ended, and goes on.
	away.Store(true)
	state = filepath.Join(t.TempDir(), "state")
	_, stop = f.serve(args(state, "--schema-registry", fake.URL()))
	time.Sleep(500 * time.Millisecond)
	if code, text := stop(); code != 0 {
		t.Errorf("a stop while it waits: exit code %d: %s", code, text)
	}
	away.Store(false)
	must(t, args(state, "--schema-registry", fake.URL())...)
	if got := newest(t, state); got.StateHash != want.StateHash {
		t.Errorf("after a stop the state is %s, want %s", got.StateHash, want.StateHash)
	}

	// An id that there is not.
	bad := avroPayments(t, topic, 3, 77, 77)
	kafkatest.Produce(t, c.brokers, bad...)
	state = filepath.Join(t.TempDir(), "state")
	must(t, args(state, "--schema-registry", fake.URL(), "--tolerance", "data", "--dlq")...)
	letters := kafkatest.ReadAll(t, c.brokers, topic+".dlq")
	if len(letters) != 3 {
		t.Fatalf("%d dead letters", len(letters))
	}
	said := fmt.Sprint(headersOf(letters[0]))
	if !strings.Contains(said, "reason:schema") || !strings.Contains(said, "schema 77: the schema registry does not have it") {
		t.Errorf("the dead letter says %s", said)
	}
	code, _, text := streamsvm(t.Context(), args(state, "--avro-schema", "nothing")...)
	if code == 0 || !strings.Contains(text, "nothing") {
		t.Errorf("exit code %d: %s", code, text)
	}
	if code, _, text := streamsvm(t.Context(), args(state)...); code == 0 || !strings.Contains(text, "--codec avro needs it, or --avro-schema") {
		t.Errorf("without a registry: exit code %d: %s", code, text)
	}
}

// TestBareAvro has records that refer to no schema.
func TestBareAvro(t *testing.T) {
	c := newCluster(t)
	topic, models, predictions := kafkatest.Topic(t, c.brokers, 1, nil), c.name(), c.name()
	recs := avroPayments(t, topic, 2000, 8, 8)[:1001] // of one schema
	for i := range recs {
		recs[i].Value = recs[i].Value[5:]
	}
	kafkatest.Produce(t, c.brokers, recs...)
	schema := filepath.Join(t.TempDir(), "payment.avsc")
	write(t, schema, payments1)
	c.run(append([]string{"train", "--topics", topic, "--codec", "avro", "--avro-schema", schema, "--label", "fraud", "--until-end", "--model-topic", models, "--checkpoint", t.TempDir()}, learn...)...)
	c.run("predict", "--model-topic", models, "--avro-schema", schema, "--topics", topic, "--predictions-topic", predictions, "--until-end", "-q")
	if n := len(kafkatest.ReadAll(t, c.brokers, predictions)); n != len(recs) {
		t.Errorf("%d predictions", n)
	}
}

func headersOf(r stream.Record) (list []string) {
	for _, h := range r.Headers {
		list = append(list, h.Key+":"+string(h.Value))
	}
	return list
}

// TestForeignProducer has records written by Confluent's client for Python, with
// its own serializers, in all the ways in which it can say which schema they have.
func TestForeignProducer(t *testing.T) {
	python := peersPython(t, "import confluent_kafka.schema_registry.avro, confluent_kafka.schema_registry.protobuf, confluent_kafka.schema_registry.json_schema, grpc_tools")
	fake := srfake.New()
	defer fake.Close()
	foreign(t, python, fake.URL())
}

// TestApicurio is TestForeignProducer with a real registry, if it has been
// fetched.
func TestApicurio(t *testing.T) {
	if os.Getenv("STREAMSVM_LONG") == "" {
		t.Skip("a JVM has to start: STREAMSVM_LONG=1")
	}
	python := peersPython(t, "import confluent_kafka.schema_registry.avro, confluent_kafka.schema_registry.protobuf, confluent_kafka.schema_registry.json_schema, grpc_tools")
	dir := t.TempDir()
	out, err := exec.Command("../../scripts/registry.sh", "start", dir).Output()
	if err != nil {
		t.Skip("no registry: scripts/registry.sh fetch downloads it")
	}
	t.Cleanup(func() {
		if out, err := exec.Command("../../scripts/registry.sh", "stop", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	foreign(t, python, strings.TrimSpace(string(out)))
}

// peersPython returns the interpreter of the peers, if it can run the code.
func peersPython(t *testing.T, code string) string {
	home, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	python := filepath.Join(home, "streamsvm", "peers", "bin", "python")
	if out, err := exec.Command(python, "-c", code).CombinedOutput(); err != nil {
		t.Skipf("pip install 'confluent-kafka[avro,protobuf,json]' grpcio-tools in %s: %v %s", filepath.Dir(filepath.Dir(python)), err, out)
	}
	return python
}

// foreign has a producer in Python register schemas and write payments, and
// predicts them.
func foreign(t *testing.T, python, registry string) {
	c := newCluster(t)
	for _, how := range []string{"avro", "avro-header", "protobuf", "protobuf-header", "json"} {
		t.Run(how, func(t *testing.T) {
			if strings.HasSuffix(how, "-header") && strings.Contains(registry, "/ccompat/") {
				t.Skip("the registry tells no GUID when a schema is registered")
			}
			c := &cluster{t, c.brokers}
			topic, models, predictions := kafkatest.Topic(t, c.brokers, 1, nil), kafkatest.Name(t, c.brokers), kafkatest.Name(t, c.brokers)
			p := exec.Command(python, "testdata/payments.py", strings.Join(c.brokers, ","), registry, topic, how, "1500")
			if out, err := p.CombinedOutput(); err != nil && strings.Contains(string(out), "GUID is not set") {
				t.Skip("the registry tells no GUID when a schema is registered")
			} else if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			name, _, _ := strings.Cut(how, "-")
			var more []string
			if name != "json" {
				more = []string{"--schema-registry", registry}
			}
			c.run(append(append([]string{"train", "--topics", topic, "--codec", name, "--label", "fraud", "--until-end", "--model-topic", models, "--checkpoint", t.TempDir()}, learn...), more...)...)
			c.run(append([]string{"predict", "--model-topic", models, "--topics", topic, "--predictions-topic", predictions, "--until-end", "-q"}, more...)...)
			right, all := 0, 0
			for _, r := range kafkatest.ReadAll(t, c.brokers, predictions) {
				var p struct {
					Label, Y any
					Error    string
				}
				if err := json.Unmarshal(r.Value, &p); err != nil || p.Error != "" {
					t.Fatalf("%s: %v", r.Value, err)
				}
				if all++; p.Label == p.Y {
					right++
				}
			}
			if all != 1500 || right < all*8/10 {
				t.Errorf("%d of %d predictions are right", right, all)
			}
		})
	}
}
