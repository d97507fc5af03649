package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/contrib/synth"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
	"github.com/streamsvm/streamsvm/stream/fileio"
)

// apart is a stream whose labels come on a topic of their own.
type apart struct {
	offline []byte // the joined file, json
	records []stream.Record
	labels  int
}

// newApart makes n examples, one in a hundred without a label, in partition 0
// of the topic examples, and their labels, late examples later or up to spread
// sooner, in three partitions of the topic labels. Keys are those of the
// records, or ids, and labels have both forms.
func newApart(t *testing.T, examples, labels string, n, late, spread int) *apart {
	t.Helper()
	gen, err := synth.New("moons", 4, nil)
	if err != nil {
		t.Fatal(err)
	}
	enc, err := codec.New("json", codec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 7))
	a := &apart{}
	for i := range n {
		var ex stream.Example
		gen.Next(&ex)
		key := fmt.Sprintf("k%d", i)
		if i%100 == 50 {
			ex.Labelled, ex.Y = false, 0
		}
		if i%3 == 0 {
			ex.ID = key
		}
		line, err := enc.Append(nil, &ex)
		if err != nil {
			t.Fatal(err)
		}
		a.offline = append(append(a.offline, line...), '\n')
		at := func(d int) time.Time { return time.UnixMilli(1_700_000_000_000 + 10*int64(i+d)) }
		if ex.Labelled {
			l := stream.Record{Topic: labels, Partition: int32(i % 3), Time: at(late - r.IntN(spread+1)).Add(5 * time.Millisecond)}
			if i%3 == 0 {
				l.Value = fmt.Appendf(nil, `{"id":%q,"y":%v}`, key, ex.Y)
			} else {
				l.Key, l.Value = []byte(key), fmt.Appendf(nil, "%+v", ex.Y)
			}
			a.records = append(a.records, l)
			a.labels++
		}
		ex.Labelled, ex.Y = false, 0
		rec := stream.Record{Topic: examples, Time: at(0)}
		if rec.Value, err = enc.Append(nil, &ex); err != nil {
			t.Fatal(err)
		}
		if i%3 != 0 {
			rec.Key = []byte(key)
		}
		a.records = append(a.records, rec)
	}
	slices.SortStableFunc(a.records, func(x, y stream.Record) int { return x.Time.Compare(y.Time) })
	return a
}

// TestTrainJoinsLabels: what is learned from two topics, where no label overtakes another, is what is
// learned from the joined file, and the recording leads to the same state.
func TestTrainJoinsLabels(t *testing.T) {
	c := newCluster(t)
	learn := []string{"--learner", "online", "--tune=off", "-q"} // so many take little time
	const n = 14000
	examples, labels := kafkatest.Topic(t, c.brokers, 1, nil), kafkatest.Topic(t, c.brokers, 3, nil)
	a := newApart(t, examples, labels, n, 10000, 0)
	kafkatest.Produce(t, c.brokers, a.records...)
	dir := t.TempDir()
	file := filepath.Join(dir, "joined.json")
	write(t, file, a.offline)
	offline := filepath.Join(dir, "offline.ssm")
	must(t, append([]string{"replay", file, "--model", offline}, learn...)...)
	want := read(t, offline)
	for _, merge := range []string{"ordered", "arrival"} {
		join := []string{"--join", "key", "--labels-topic", labels} // the default window is just enough
		if merge == "arrival" {
			join = append(join, "--join-window", fmt.Sprint(n)) // one topic may be read before the other
		}
		models, state, rec := c.name(), filepath.Join(dir, merge), filepath.Join(dir, merge+".ssr")
		args := slices.Concat([]string{"train", "--topics", examples, "--until-end", "--merge", merge, "--model-topic", models, "--checkpoint", state,
			"--checkpoint-every", "1000", "--record", rec}, learn, join)
		c.run(args...)
		s := newest(t, state)
		if m := s.Meta; m["consumed"] != fmt.Sprint(len(a.records)) || m["learned"] != fmt.Sprint(a.labels) || m["joined"] != m["learned"] ||
			m["sampled_out"] != fmt.Sprint(n-a.labels) || m["late"] != "0" || m["pending"] != "0" || len(s.Partitions) != 4 {
			t.Errorf("%s: the last checkpoint says %v, %v", merge, m, s.Partitions)
		}
		saved := filepath.Join(dir, "saved-"+merge)
		c.run("model", "follow", "--model-topic", models, "--until", "1", "--save", saved)
		got := read(t, filepath.Join(saved, "model.ssm"))
		// As they arrive, labels of one partition may overtake those of another.
		if merge == "ordered" && !bytes.Equal(learned(t, got), learned(t, want)) {
			t.Error("the model differs from that of the joined file")
		}
		text := must(t, slices.Concat([]string{"replay", rec}, learn, join)...)
		if !strings.Contains(text, s.StateHash) || !strings.Contains(text, "0 too late") {
			t.Errorf("%s: replay of the recording: %s, want state %s", merge, text, s.StateHash)
		}
		// Another join may not go on from the checkpoint.
		other := append(slices.Clone(args), "--join-window", "7")
		if code, _, errText := streamsvm(t.Context(), append(other, "--brokers", strings.Join(c.brokers, ","))...); code != int(cli.Config) || !strings.Contains(errText, "give --join key") {
			t.Errorf("with another window: exit code %d, %q", code, errText)
		}
	}
	for want, args := range map[string][]string{
		"--labels-field": {"--join", "key", "--labels-field", "y"},
		"needs --join":   {"--labels-topic", labels},
		"join-window":    {"--join", "key", "--labels-topic", labels, "--join-window", "0"},
		"leave it out":   {"--join", "key", "--labels-topic", examples},
	} {
		args = slices.Concat([]string{"train", "--topics", examples, "--brokers", strings.Join(c.brokers, ",")}, args)
		if code, _, errText := streamsvm(t.Context(), args...); code != int(cli.Usage) || !strings.Contains(errText, want) {
			t.Errorf("%v: exit code %d, %q does not name %s", args, code, errText, want)
		}
	}
}

// TestJoinCountsLateAndMissing: with a window smaller than the delays, every
// record still has one fate.
func TestJoinCountsLateAndMissing(t *testing.T) {
	c := newCluster(t)
	examples, labels := kafkatest.Topic(t, c.brokers, 1, nil), kafkatest.Topic(t, c.brokers, 3, nil)
	a := newApart(t, examples, labels, 3000, 400, 400)
	kafkatest.Produce(t, c.brokers, a.records...)
	state := filepath.Join(t.TempDir(), "state")
	args := slices.Concat([]string{"train", "--topics", examples, "--until-end", "--merge", "ordered", "--checkpoint", state, "--join", "key",
		"--labels-topic", labels, "--join-window", "200"}, learn)
	_, _, text := streamsvm(t.Context(), append(slices.DeleteFunc(args, func(s string) bool { return s == "-q" }), "--brokers", strings.Join(c.brokers, ","))...)
	m := newest(t, state).Meta
	number := func(name string) (n int) {
		if _, err := fmt.Sscan(m[name], &n); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n
	}
	if sum := number("learned") + number("sampled_out") + number("dead") + number("joined") + number("late"); sum != number("consumed") || sum != len(a.records) {
		t.Errorf("the fates of %d records add up to %d: %v", len(a.records), sum, m)
	}
	if number("late") == 0 || number("joined") == 0 || number("joined")+number("late") != a.labels || number("learned") != number("joined") {
		t.Errorf("of %d labels: %v", a.labels, m)
	}
	lost := fmt.Sprintf("%d of %d labels came too late and were not used: begin again with --join-window 1000 and another --checkpoint.", number("late"), a.labels)
	if !strings.Contains(text, "warning: "+lost) || !strings.Contains(text, "level=WARN msg=\"") || !strings.Contains(text, "labels came too late and were not used: begin again with --join-window 1000 and another --checkpoint.\"\n") {
		t.Errorf("train says %s, want a warning: %s", text, lost)
	}
	if !strings.Contains(text, fmt.Sprintf("%d too late", number("late"))) || !strings.Contains(text, fmt.Sprintf("+ %d joined + %d late +", number("joined"), number("late"))) {
		t.Errorf("train says %s", text)
	}
}

// twoTopics returns records of a topic of labelled examples in two partitions
// and one of unlabelled ones, ratio times as many, in three.
func twoTopics(t *testing.T, labelled, unlabelled string, n, ratio int) (recs []stream.Record) {
	t.Helper()
	gen, err := synth.New("moons", 4, nil)
	if err != nil {
		t.Fatal(err)
	}
	enc, err := codec.New("json", codec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n * (1 + ratio) {
		var ex stream.Example
		gen.Next(&ex)
		rec := stream.Record{Topic: labelled, Partition: int32(i % 2), Time: time.UnixMilli(1_700_000_000_000 + int64(i))}
		if i%(1+ratio) > 0 {
			rec.Topic, rec.Partition = unlabelled, int32(i%3)
			ex.Labelled, ex.Y = false, 0
		}
		if rec.Value, err = enc.Append(nil, &ex); err != nil {
			t.Fatal(err)
		}
		recs = append(recs, rec)
	}
	return recs
}

// TestTwoTopics: labelled and unlabelled examples on topics of their own, at
// different rates, each partition with its own position; a supervised learner
// samples the unlabelled ones out, a semi-supervised one learns from both.
func TestTwoTopics(t *testing.T) {
	const n, ratio = 200, 4
	few := []string{"--set", "features=256", "--set", "labels=100"}
	for _, of := range []struct {
		learner string
		set     []string
		learned int
	}{{"sbp", nil, n}, {"tsgs3vm", few, n * (1 + ratio)}} {
		t.Run(of.learner, func(t *testing.T) {
			c := newCluster(t)
			labelled, unlabelled := kafkatest.Topic(t, c.brokers, 2, nil), kafkatest.Topic(t, c.brokers, 3, nil)
			recs := twoTopics(t, labelled, unlabelled, n, ratio)
			dir := t.TempDir()
			args := func(name string) []string {
				return append([]string{"train", "--topics", labelled + "," + unlabelled, "--merge", "ordered", "--checkpoint", filepath.Join(dir, name),
					"--checkpoint-every", "100", "--learner", of.learner, "--tune=off", "--warmup", "100", "-q", "--brokers", strings.Join(c.brokers, ",")}, of.set...)
			}
			kafkatest.Produce(t, c.brokers, recs...)
			must(t, append(args("once"), "--until-end")...)
			s := newest(t, filepath.Join(dir, "once"))
			m := s.Meta
			if m["consumed"] != fmt.Sprint(len(recs)) || m["learned"] != fmt.Sprint(of.learned) || m["sampled_out"] != fmt.Sprint(len(recs)-of.learned) || m["pending"] != "0" {
				t.Errorf("fates: %v", m)
			}
			next := map[string]int64{}
			for _, p := range s.Partitions {
				next[p.Topic] += p.Next
			}
			if len(s.Partitions) != 5 || next[labelled] != n || next[unlabelled] != n*ratio {
				t.Errorf("positions: %+v", s.Partitions)
			}
			// Another run is stopped after its second checkpoint, and goes on. The
			// order of the topics on the command line is of no account.
			other := args("other")
			other[2] = unlabelled + "," + labelled
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			code, errText := 0, ""
			go func() {
				code, _, errText = streamsvm(ctx, other...)
				close(done)
			}()
			waitCheckpoints(t, filepath.Join(dir, "other"), 2, done)
			cancel()
			if <-done; code != 0 {
				t.Errorf("exit code %d after a stop: %s", code, errText)
			}
			must(t, append(other, "--until-end")...)
			if o := newest(t, filepath.Join(dir, "other")); o.StateHash != s.StateHash {
				t.Errorf("state %s after a stop, %s without", o.StateHash, s.StateHash)
			}
		})
	}
}

// TestChecksKnowLabels: what checks settings and permissions knows the topic of
// labels.
func TestChecksKnowLabels(t *testing.T) {
	join := []string{"--topics", "a", "--join", "key", "--labels-topic", "lab"}
	out := must(t, append([]string{"config", "acls", "--principal", "CN=x", "--", "--brokers", "k:9092", "--model-topic", "m", "--dlq"}, join...)...)
	for _, want := range []string{"--operation Read --topic lab\n", "--topic lab.dlq\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("acls prints\n%swithout %q", out, want)
		}
	}
	b := kafkatest.Embedded(t)
	kafkatest.Create(t, []string{b.Addr()}, "a", 1, nil)
	_, out, errText := streamsvm(t.Context(), append([]string{"doctor", "--brokers", b.Addr()}, join...)...)
	if !strings.Contains(out, "topic lab: it does not exist") {
		t.Errorf("doctor prints\n%s%s", out, errText)
	}
	_, out, errText = streamsvm(t.Context(), append([]string{"doctor", "--brokers", b.Addr(), "--checkpoint", t.TempDir(), "--model-topic", "lab"}, join...)...)
	if !strings.Contains(out+errText, "lab is a topic of labels too") {
		t.Errorf("the model among the labels: doctor prints\n%s%s", out, errText)
	}
}

// orders makes n events without labels in two partitions of a topic, an hour of them, and
// their labels in another, up to ten minutes later. put adds to both records what they are
// joined by.
func orders(topic, labels string, n int, put func(i int, order, label map[string]any) (o, l stream.Record)) (recs []stream.Record) {
	r := rand.New(rand.NewPCG(5, 5))
	began := time.UnixMilli(1_700_000_000_000)
	for i := range n {
		amount, country := 100*r.Float64(), []string{"DE", "FR", "NG"}[r.IntN(3)]
		fraud := amount > 70 != (country == "NG")
		o, l := put(i, map[string]any{"amount": amount, "country": country}, map[string]any{"fraud": fraud, "reviewer": r.IntN(5)})
		at := began.Add(time.Duration(i) * time.Hour / time.Duration(n))
		o.Topic, o.Partition, o.Time = topic, int32(i%2), at
		l.Topic, l.Time = labels, at.Add(time.Duration(r.IntN(600_000))*time.Millisecond)
		recs = append(recs, o, l)
	}
	slices.SortStableFunc(recs, func(a, b stream.Record) int { return a.Time.Compare(b.Time) })
	return recs
}

func asJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of texts and numbers
	}
	return b
}

// TestJoinsBy: examples and labels are joined by fields, nested or not, by headers, or by
// the record keys, whatever they are called in the two topics. All of it gives one state
// but for the names; a replay of the recording gives that of the live run.
func TestJoinsBy(t *testing.T) {
	c := newCluster(t)
	const n = 1500
	for _, of := range []struct {
		name string
		join []string
		put  func(i int, o, l map[string]any) (stream.Record, stream.Record)
	}{
		{"field", []string{"--join", "order_id"}, func(i int, o, l map[string]any) (stream.Record, stream.Record) {
			o["order_id"], l["order_id"] = fmt.Sprint("o", i), fmt.Sprint("o", i)
			return stream.Record{Value: asJSON(o)}, stream.Record{Value: asJSON(l)}
		}},
		{"other names, nested", []string{"--join", "order.id=ref.order", "--labels-field", "ref.bad"}, func(i int, o, l map[string]any) (stream.Record, stream.Record) {
			o["order"] = map[string]any{"id": i}
			l["ref"] = map[string]any{"order": fmt.Sprint(i), "bad": l["fraud"]}
			return stream.Record{Value: asJSON(o)}, stream.Record{Value: asJSON(l)}
		}},
		{"rows of csv", []string{"--join", "order_id=1", "--labels-field", "3"}, func(i int, o, l map[string]any) (stream.Record, stream.Record) {
			o["order_id"] = fmt.Sprint("o", i)
			return stream.Record{Value: asJSON(o)}, stream.Record{Value: fmt.Appendf(nil, "o%d,ann,%v", i, l["fraud"])}
		}},
		{"field and key", []string{"--join", "order_id=key"}, func(i int, o, l map[string]any) (stream.Record, stream.Record) {
			o["order_id"] = i
			return stream.Record{Value: asJSON(o)}, stream.Record{Key: fmt.Append(nil, i), Value: asJSON(l)}
		}},
		{"header", []string{"--join", "header:order"}, func(i int, o, l map[string]any) (stream.Record, stream.Record) {
			h := []stream.Header{{Key: "order", Value: fmt.Append(nil, i)}}
			return stream.Record{Key: []byte("x"), Headers: h, Value: asJSON(o)}, stream.Record{Headers: h, Value: asJSON(l)}
		}},
		{"key", []string{"--join", "key"}, func(i int, o, l map[string]any) (stream.Record, stream.Record) {
			k := fmt.Append(nil, i)
			return stream.Record{Key: k, Value: asJSON(o)}, stream.Record{Key: k, Value: fmt.Append(nil, l["fraud"])}
		}},
	} {
		t.Run(of.name, func(t *testing.T) {
			topic, labels := kafkatest.Topic(t, c.brokers, 2, nil), kafkatest.Topic(t, c.brokers, 1, nil)
			kafkatest.Produce(t, c.brokers, orders(topic, labels, n, of.put)...)
			dir := t.TempDir()
			state, rec := filepath.Join(dir, "state"), filepath.Join(dir, "run.ssr")
			join := append([]string{"--labels-topic", labels, "--label", "fraud", "--learner", "online", "--tune=off", "-q"}, of.join...)
			args := append([]string{"train", "--topics", topic, "--checkpoint", state, "--record", rec, "--until-end"}, join...)
			c.run(args...)
			s := newest(t, state)
			if m := s.Meta; m["learned"] != fmt.Sprint(n) || m["joined"] != fmt.Sprint(n) || m["late"] != "0" {
				t.Errorf("the last checkpoint says %v", m)
			}
			text := must(t, append([]string{"replay", rec}, slices.DeleteFunc(slices.Clone(join), func(s string) bool { return s == "-q" })...)...)
			if !strings.Contains(text, s.StateHash) {
				t.Errorf("replay of the recording: %s, want state %s", text, s.StateHash)
			}
			infer := []string{"schema", "infer", "--topics", topic, "--labels-topic", labels, "--label", "fraud", "--brokers", strings.Join(c.brokers, ",")}
			if out := must(t, append(infer, of.join...)...); !strings.HasPrefix(out, "# labels: false,true\n") || !strings.Contains(out, "amount: numeric") {
				t.Errorf("schema infer prints\n%s", out)
			}
			if of.name != "field" {
				return
			}
			// The join is a part of the state, and wrong names say which there are.
			for want, change := range map[string][]string{
				"give --join order_id --labels-topic " + labels: {"--join", "order_id=id"},
				"no field number to join by; they have amount":  {"--join", "number", "--checkpoint", t.TempDir(), "--record", ""},
				"has a field id to join by":                     {"--join", "order_id=id", "--checkpoint", t.TempDir(), "--record", ""},
				"no record of the topic of labels has a field verdict: name the label with --labels-field; its first record has the fields fraud, order_id, reviewer": {
					"--labels-field", "verdict", "--checkpoint", t.TempDir(), "--record", ""},
			} {
				code, _, errText := streamsvm(t.Context(), append(append(slices.Clone(args), change...), "--brokers", strings.Join(c.brokers, ","))...)
				if code == 0 || !strings.Contains(errText, want) {
					t.Errorf("%v: exit code %d, %s, want %q", change, code, errText, want)
				}
			}
		})
	}
}

// TestLabelsInLaterRecords: changes of a table, in Debezium's envelope, where a row gets its label
// later. What is learned from is the row as it was, without the fields that come with the label.
func TestLabelsInLaterRecords(t *testing.T) {
	c := newCluster(t)
	const n = 1500
	topic := kafkatest.Topic(t, c.brokers, 3, nil)
	row := func(i int, o, l map[string]any, op string) stream.Record {
		after := maps.Clone(o)
		after["id"], after["fraud"], after["reviewer"] = i, l["fraud"], l["reviewer"]
		return stream.Record{Key: fmt.Append(nil, i), Value: asJSON(map[string]any{"before": nil, "after": after, "op": op, "source": map[string]any{"table": "orders"}})}
	}
	var recs []stream.Record
	for _, r := range orders("orders", "labels", n, func(i int, o, l map[string]any) (stream.Record, stream.Record) {
		return row(i, o, nil, "c"), row(i, map[string]any{"amount": -1, "country": "??"}, l, "u")
	}) {
		i, err := strconv.Atoi(string(r.Key))
		if err != nil {
			t.Fatal(err)
		}
		if r.Topic, r.Partition = topic, int32(i%3); i%50 == 7 {
			recs = append(recs, r) // it changes twice, or is sent twice
		}
		recs = append(recs, r)
	}
	kafkatest.Produce(t, c.brokers, recs...)
	dir := t.TempDir()
	state, rec := filepath.Join(dir, "state"), filepath.Join(dir, "run.ssr")
	join := []string{"--label", "fraud", "--join", "id", "--learner", "online", "--tune=off"}
	c.run(append([]string{"train", "--topics", topic, "--checkpoint", state, "--record", rec, "--until-end", "-q"}, join...)...)
	s := newest(t, state)
	if m := s.Meta; m["learned"] != fmt.Sprint(n+n/50) || m["joined"] != fmt.Sprint(n) || m["late"] != fmt.Sprint(n/50) {
		t.Errorf("the last checkpoint says %v", m)
	}
	text := must(t, append([]string{"replay", rec}, join...)...)
	accuracy := regexp.MustCompile(`accuracy ([0-9.]+) %`).FindStringSubmatch(text)
	if len(accuracy) < 2 || !strings.Contains(text, s.StateHash) {
		t.Fatalf("replay of the recording: %s, want state %s", text, s.StateHash)
	}
	if v, err := strconv.ParseFloat(accuracy[1], 64); err != nil || v < 70 {
		t.Errorf("accuracy %s %%", accuracy[1])
	}
	brokers := []string{"--topics", topic, "--brokers", strings.Join(c.brokers, ",")}
	other := slices.Concat([]string{"train", "--checkpoint", state, "--join-window", "7"}, brokers, join)
	if code, _, errText := streamsvm(t.Context(), other...); code != int(cli.Config) || !strings.Contains(errText, "give --join id --join-window 10000,") {
		t.Errorf("with another window: exit code %d, %q", code, errText)
	}
	if out := must(t, append(append([]string{"schema", "infer"}, brokers...), join[:4]...)...); !strings.Contains(out, "reviewer: ignore") || !strings.Contains(out, "country: categorical # 3: DE, FR, NG") {
		t.Errorf("schema infer prints\n%s", out)
	}
	_, out, _ := streamsvm(t.Context(), append([]string{"doctor", "--label", "fraud", "--checkpoint", filepath.Join(dir, "none")}, brokers...)...)
	if want := regexp.MustCompile(`warn  join: \d{3} of \d{3} records with a label have the key or id of an earlier one without.*\n.*--join key`); !want.MatchString(out) {
		t.Errorf("doctor prints\n%s", out)
	}
	if out := must(t, append(append([]string{"doctor", "--checkpoint", filepath.Join(dir, "none")}, brokers...), join...)...); !strings.Contains(out, "join: 1500 of 1500 labels meet one of 1530 examples") {
		t.Errorf("doctor prints\n%s", out)
	}
}

// TestMissingLabel: where only one label is reported, the examples without it have the other.
func TestMissingLabel(t *testing.T) {
	c := newCluster(t)
	const n = 1500
	topic, labels := kafkatest.Topic(t, c.brokers, 2, nil), kafkatest.Topic(t, c.brokers, 1, nil)
	recs := orders(topic, labels, n, func(i int, o, l map[string]any) (stream.Record, stream.Record) {
		o["order_id"], l["order_id"] = i, i
		return stream.Record{Value: asJSON(o)}, stream.Record{Value: asJSON(l)}
	})
	recs = slices.DeleteFunc(recs, func(r stream.Record) bool { return bytes.Contains(r.Value, []byte(`"fraud":false`)) })
	kafkatest.Produce(t, c.brokers, recs...)
	dir := t.TempDir()
	state, rec := filepath.Join(dir, "state"), filepath.Join(dir, "run.ssr")
	join := []string{"--labels-topic", labels, "--label", "fraud", "--join", "order_id", "--join-window", "500", "--learner", "online", "--tune=off"}
	args := append([]string{"train", "--topics", topic, "--until-end", "-q", "--checkpoint"}, append([]string{state}, join...)...)
	c.run(append(args, "--missing-label", "false", "--record", rec)...)
	s := newest(t, state)
	if m := s.Meta; m["learned"] != fmt.Sprint(n) || m["joined"] != fmt.Sprint(len(recs)-n) || m["late"] != "0" {
		t.Errorf("%d positive labels: the last checkpoint says %v", len(recs)-n, m)
	}
	text := must(t, append([]string{"replay", rec, "--missing-label", "false"}, join...)...)
	accuracy := regexp.MustCompile(`accuracy ([0-9.]+) %`).FindStringSubmatch(text)
	if len(accuracy) < 2 || !strings.Contains(text, s.StateHash) {
		t.Fatalf("replay of the recording: %s, want state %s", text, s.StateHash)
	}
	if v, err := strconv.ParseFloat(accuracy[1], 64); err != nil || v < 70 {
		t.Errorf("accuracy %s %%", accuracy[1])
	}
	for want, change := range map[string][]string{
		"--missing-label says what examples are whose label does not come": {"--checkpoint", t.TempDir()},
		`the label is "no", want false or true`:                            {"--checkpoint", t.TempDir(), "--missing-label", "no"},
		"give --missing-label false":                                       {},
		"--missing-label: it needs --join":                                 {"--join", "none", "--labels-topic", "", "--missing-label", "no"},
	} {
		code, _, errText := streamsvm(t.Context(), append(append(slices.Clone(args), change...), "--brokers", strings.Join(c.brokers, ","))...)
		if code == 0 || !strings.Contains(errText, want) {
			t.Errorf("%v: exit code %d, %s, want %q", change, code, errText, want)
		}
	}
}

// TestJoinOfABacklog: by default topics are merged by timestamp, so that the order is that
// in which things happened, whichever topic was written first, and a run that is stopped in
// the middle goes on in it. The accuracy is that of labels that come with the examples.
func TestJoinOfABacklog(t *testing.T) {
	c := newCluster(t)
	const n = 3000
	topic, labels := kafkatest.Topic(t, c.brokers, 2, nil), kafkatest.Topic(t, c.brokers, 1, nil)
	recs := orders(topic, labels, n, func(i int, o, l map[string]any) (stream.Record, stream.Record) {
		o["order_id"], l["id"] = i, i
		return stream.Record{Value: asJSON(o)}, stream.Record{Value: asJSON(l)}
	})
	slices.SortStableFunc(recs, func(a, b stream.Record) int { return strings.Compare(a.Topic, b.Topic) })
	kafkatest.Produce(t, c.brokers, recs...)
	args := func(state string) []string {
		return []string{"train", "--topics", topic, "--labels-topic", labels, "--label", "fraud", "--join", "order_id=id", "--join-window", "600",
			"--checkpoint", state, "--checkpoint-every", "700", "--lateness", "100ms", "--brokers", strings.Join(c.brokers, ",")}
	}
	dir := t.TempDir()
	rec := filepath.Join(dir, "run.ssr")
	_, _, text := streamsvm(t.Context(), append(args(filepath.Join(dir, "once")), "--until-end", "--record", rec)...)
	r, err := fileio.OpenRecording(rec)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var read []stream.Record
	for err == nil {
		read, err = r.Next(read)
	}
	if len(read) != len(recs) || !slices.IsSortedFunc(read, func(a, b stream.Record) int { return a.Time.Compare(b.Time) }) {
		t.Errorf("%d of %d records were read, or not in the order of their times", len(read), len(recs))
	}
	s := newest(t, filepath.Join(dir, "once"))
	if m := s.Meta; m["joined"] != fmt.Sprint(n) || m["late"] != "0" || strings.Contains(text, "warning") {
		t.Errorf("the last checkpoint says %v, train %s", m, text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		streamsvm(ctx, args(filepath.Join(dir, "twice"))...)
		close(done)
	}()
	waitCheckpoints(t, filepath.Join(dir, "twice"), 2, done)
	cancel()
	<-done
	must(t, append(args(filepath.Join(dir, "twice")), "--until-end", "-q")...)
	if o := newest(t, filepath.Join(dir, "twice")); o.StateHash != s.StateHash {
		t.Errorf("state %s after a stop, %s without", o.StateHash, s.StateHash)
	}
}
