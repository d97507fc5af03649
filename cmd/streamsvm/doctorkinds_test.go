package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/streamsvm/streamsvm/contrib/synth"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// kindOf is a kind of topic that people have.
type kindOf struct {
	name  string
	value func(e *item) string // of a record
	edit  func(recs []stream.Record) []stream.Record
	// produce writes the records where they are not just sent.
	produce func(t *testing.T, brokers []string, recs []stream.Record)
	config  map[string]string // of the topic
	args    []string          // that the user gives besides topic and learner
	parts   int

	// trains says that a model is learned, by settings of which these are some.
	trains bool
	advice []string
	// dead is how many records become dead letters, which doctor announces.
	dead int
	// says is part of what doctor says where nothing can be learned.
	says string
	// regress marks labels that are quantities.
	regress bool
}

// item is an example of the data set.
type item struct {
	i int
	x []float32
	y float64
}

// positive is a if the label is +1, else b.
func (e *item) of(b, a string) string {
	if e.y > 0 {
		return a
	}
	return b
}

func (e *item) csv(sep string) string {
	return fmt.Sprintf("%v%s%v", e.x[0], sep, e.x[1])
}

func (e *item) json(label string) string {
	return fmt.Sprintf(`{"x":[%v,%v],"y":%s}`, e.x[0], e.x[1], label)
}

func (e *item) y1() string { return e.of("-1", "1") }
func (e *item) y0() string { return e.of("0", "1") }

// pm is the plain form.
func (e *item) pm() string { return e.json(e.y1()) }

func (e *item) libsvm(label string) string {
	return fmt.Sprintf("%s 1:%v 2:%v", label, e.x[0], e.x[1])
}

func (e *item) pack(x any, y any) string { return packed(map[string]any{"x": x, "y": y}) }

func packed(v any) string {
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.SetSortMapKeys(true)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return b.String()
}

// floats are features as little-endian float32.
func (e *item) floats() []byte {
	b, err := binary.Append(nil, binary.LittleEndian, e.x)
	if err != nil {
		panic(err)
	}
	return b
}

// every changes the value of every nth record.
func every(n int, change func(r *stream.Record)) func([]stream.Record) []stream.Record {
	return func(recs []stream.Record) []stream.Record {
		for i := n / 2; i < len(recs); i += n {
			change(&recs[i])
		}
		return recs
	}
}

func all(change func(r *stream.Record)) func([]stream.Record) []stream.Record {
	return every(1, change)
}

// before puts a record in front.
func before(value string) func([]stream.Record) []stream.Record {
	return func(recs []stream.Record) []stream.Record {
		first := recs[0]
		first.Value = []byte(value)
		return append([]stream.Record{first}, recs...)
	}
}

const registryHead = "\x00\x00\x00\x00\x11"

// kindExamples is the number of examples in a topic, heldOut of those that
// models are tested on, and kindLine what a model reaches: the moons can be
// told apart to 97 %.
const (
	kindExamples = 600
	heldOut      = 300
	kindLine     = 0.93
)

// kinds are those that doctor is tested on, and documented with.
func kinds() []kindOf {
	keyed := all(func(r *stream.Record) { r.Key = fmt.Appendf(nil, "k%x", r.Value) })
	return []kindOf{
		// What a codec reads, with the settings that it takes.
		{name: "JSON, labels -1 and 1", value: (*item).pm, trains: true},
		{name: "JSON, sparse", value: func(e *item) string { return fmt.Sprintf(`{"x":{"1":%v,"2":%v},"y":%s}`, e.x[0], e.x[1], e.y1()) }, trains: true},
		{name: "JSON, other fields, over several lines", value: func(e *item) string {
			return fmt.Sprintf("{\n  \"id\": %d,\n  \"ts\": \"2026-01-31\",\n  \"x\": [%v, %v],\n  \"y\": %s\n}", e.i, e.x[0], e.x[1], e.y1())
		}, trains: true},
		{name: "JSON, labels 0 and 1", value: func(e *item) string { return e.json(e.y0()) }, trains: true},
		{name: "JSON, labels 1 and 2", value: func(e *item) string { return e.json(e.of("1", "2")) }, trains: true},
		{name: "JSON, labels 3 and 5", value: func(e *item) string { return e.json(e.of("3", "5")) }, trains: true},
		{name: "JSON, labels 0.0 and 1.0", value: func(e *item) string { return e.json(e.of("0.0", "1.0")) }, trains: true},
		{name: "JSON, labels true and false", value: func(e *item) string { return e.json(e.of("false", "true")) }, trains: true},
		{name: "JSON, labels yes and no", value: func(e *item) string { return e.json(e.of(`"no"`, `"yes"`)) }, trains: true},
		{name: "JSON, labels True and False, as Python writes them", value: func(e *item) string { return e.json(e.of(`"False"`, `"True"`)) }, trains: true},
		{name: "JSON, labels of two words", value: func(e *item) string { return e.json(e.of(`"will not buy"`, `"will buy"`)) },
			trains: true},
		{name: "JSON, labels in quotes", value: func(e *item) string { return e.json(e.of(`"-1"`, `"1"`)) }, trains: true},
		{name: "JSON, labels \"true\" and \"false\"", value: func(e *item) string { return e.json(e.of(`"false"`, `"true"`)) }, trains: true},
		{name: "JSON, labels 0 and 1, read with --labels 12", value: func(e *item) string { return e.json(e.y0()) }, args: []string{"--labels", "12"}, trains: true, advice: []string{"--labels 0,1"}},
		{name: "JSON, half of it without labels", value: (*item).pm, edit: every(2, func(r *stream.Record) {
			r.Value = bytes.Replace(bytes.Replace(r.Value, []byte(`"y":-1`), []byte(`"y":null`), 1), []byte(`"y":1`), []byte(`"y":null`), 1)
		}), trains: true},
		{name: "MessagePack", value: func(e *item) string { return e.pack(e.floats(), int(e.y)) }, trains: true, advice: []string{"--codec msgpack"}},
		{name: "MessagePack, arrays, labels true and false", value: func(e *item) string { return e.pack(e.x, e.y > 0) }, trains: true, advice: []string{"--codec msgpack"}},
		{name: "libsvm", value: func(e *item) string { return e.libsvm(e.of("-1", "+1")) }, trains: true, advice: []string{"--codec libsvm"}},
		{name: "libsvm, labels 0 and 1", value: func(e *item) string { return e.libsvm(e.y0()) }, trains: true, advice: []string{"--codec libsvm"}},
		{name: "libsvm, labels ham and spam", value: func(e *item) string { return e.libsvm(e.of("ham", "spam")) }, trains: true, advice: []string{"--codec libsvm"}},
		{name: "CSV, the label last", value: func(e *item) string { return e.csv(",") + "," + e.y1() }, trains: true, advice: []string{"--codec csv", "--label-column 3"}},
		{name: "CSV, the label first, 0 and 1", value: func(e *item) string { return e.y0() + "," + e.csv(",") + "\r\n" }, trains: true, advice: []string{"--codec csv", "--label-column 1"}},
		{name: "CSV, the label in the middle", value: func(e *item) string { return fmt.Sprintf("%v,%s,%v", e.x[0], e.y1(), e.x[1]) }, trains: true, advice: []string{"--label-column 2"}},
		{name: "CSV, read with --codec csv and no label column", value: func(e *item) string { return e.csv(",") + "," + e.y1() }, args: []string{"--codec", "csv"}, trains: true, advice: []string{"--label-column 3"}},
		{name: "CSV, semicolons", value: func(e *item) string { return e.csv(";") + ";" + e.y0() }, trains: true, advice: []string{"--csv-separator ';'"}},
		{name: "CSV, tabs", value: func(e *item) string { return e.csv("\t") + "\t" + e.y1() }, trains: true, advice: []string{"--csv-separator '\t'"}},
		{name: "CSV, bars", value: func(e *item) string { return e.csv("|") + "|" + e.y1() }, trains: true, advice: []string{"--csv-separator '|'"}},
		{name: "CSV, labels in quotes", value: func(e *item) string { return `"` + e.of("bad", "good") + `",` + e.csv(",") }, trains: true, advice: []string{"--label-column 1"}},
		{name: "CSV with the header of a file", value: func(e *item) string { return e.csv(",") + "," + e.y0() }, edit: before("width,height,label"),
			says: "fields with few values are 3 (0, 1, label)"},
		{name: "CSV with an id in words", value: func(e *item) string { return fmt.Sprintf("user-%d,%s,%s", e.i, e.csv(","), e.y0()) }, trains: true, advice: []string{"--codec csv", "--label-column 4"}},
		{name: "CSV with empty fields", value: func(e *item) string { return e.csv(",") + "," + []string{"", "0", "0.5", "0.7"}[e.i%4] + "," + e.y1() }, trains: true, advice: []string{"--codec csv", "--label-column 4"}},
		{name: "JSON, quantities as labels", value: func(e *item) string { return e.json(fmt.Sprint(e.y)) }, regress: true, trains: true, advice: []string{"--task regress", "--learner online"}},
		{name: "CSV, quantities as labels", value: func(e *item) string { return fmt.Sprintf("%s,%v", e.csv(","), e.y) }, regress: true, args: []string{"--learner", "online", "--task", "regress"},
			trains: true, advice: []string{"--codec csv", "--label-column last"}},
		{name: "a few records that are cut off", value: (*item).pm, edit: every(100, func(r *stream.Record) { r.Value = r.Value[:len(r.Value)/2] }), dead: 6,
			trains: true, advice: []string{"--tolerance data --dlq=.dlq"}},
		{name: "a few features that are NaN", value: func(e *item) string { return e.json(e.y0()) }, edit: every(60, func(r *stream.Record) {
			r.Value = append([]byte(`{"x":[NaN,1],`), r.Value[bytes.Index(r.Value, []byte(`"y"`)):]...)
		}), dead: 10, trains: true, advice: []string{"--tolerance data"}},
		{name: "a few vectors of another length", value: (*item).pm, edit: every(120, func(r *stream.Record) { r.Value = bytes.Replace(r.Value, []byte("["), []byte("[1,"), 1) }), dead: 5,
			trains: true, advice: []string{"--tolerance data"}},
		{name: "tombstones in a compacted topic", value: func(e *item) string { return e.json(e.y0()) }, config: map[string]string{"cleanup.policy": "compact"},
			edit: func(recs []stream.Record) []stream.Record {
				return every(5, func(r *stream.Record) { r.Value = nil })(keyed(recs))
			}, trains: true, advice: []string{"--tombstones skip"}},
		{name: "objects in strings", value: func(e *item) string { return strconv.Quote(e.json(e.y0())) }, trains: true},
		{name: "several partitions, timestamps out of order, --merge ordered", value: (*item).pm, parts: 3, args: []string{"--merge", "ordered"},
			edit: every(3, func(r *stream.Record) { r.Time = r.Time.Add(-time.Minute) }), trains: true},
		{name: "every record twice", value: (*item).pm, edit: func(recs []stream.Record) []stream.Record { return append(recs, recs...) }, trains: true},
		{name: "records of 20 kB, most of it not for us", value: func(e *item) string {
			return strings.Replace(e.pm(), "{", `{"text":"`+strings.Repeat("long ", 4000)+`",`, 1)
		}, trains: true},
		{name: "batches compressed by the producer", value: (*item).pm, produce: func(t *testing.T, brokers []string, recs []stream.Record) {
			kafkatest.ProduceWith(t, kafkatest.Client(t, brokers, kgo.ProducerBatchCompression(kgo.ZstdCompression())), recs...)
		}, trains: true},
		{name: "records written in transactions", value: (*item).pm, produce: inTransactions, trains: true},

		// Where labels are not those of a classification, or not there.
		{name: "no labels", value: func(e *item) string { return fmt.Sprintf(`{"x":[%v,%v]}`, e.x[0], e.x[1]) }, says: "none of the 600 records has a label"},
		{name: "one class only", value: func(e *item) string { return e.json("1") }, says: "all labels are the same"},
		{name: "classes 0 to 4", value: func(e *item) string { return e.json(strconv.Itoa(e.i % 5)) }, trains: true},
		{name: "classes red, green and blue", value: func(e *item) string { return e.csv(",") + "," + []string{"red", "green", "blue"}[e.i%3] }, args: []string{"--label-column", "last"}, trains: true, advice: []string{"--codec csv"}},
		{name: "a rare third class", value: func(e *item) string {
			if e.i%100 == 7 {
				return e.json("2")
			}
			return e.json(e.y0())
		}, trains: true},
		{name: "labels yes, Yes and NO", value: func(e *item) string { return e.json(e.of(`"NO"`, []string{`"yes"`, `"Yes"`}[e.i%2])) }, trains: true},
		{name: "labels 1 and \"1\"", value: func(e *item) string { return e.json(e.of("0", []string{"1", `"1"`}[e.i%2])) }, says: "different types"},
		{name: "CSV with several columns of two values", value: func(e *item) string { return fmt.Sprintf("%d,%s,%s", e.i%2, e.csv(","), e.y0()) }, says: "fields with few values are 1 (0, 1), 4 (0, 1)"},
		{name: "a topic of labels", value: func(e *item) string { return fmt.Sprintf(`{"id":"a%d","y":%s}`, e.i, e.y0()) }, says: "no field of the events can be made a feature"},

		// JSON of another form.
		{name: "named fields", value: func(e *item) string {
			return fmt.Sprintf(`{"age":%v,"size":%v,"color":"red","fraud":%s}`, e.x[0], e.x[1], e.of("false", "true"))
		}, trains: true, advice: []string{"--label fraud"}},
		{name: "nested fields", value: func(e *item) string {
			return fmt.Sprintf(`{"user":{"age":%v,"home size":"%v"},"event":{"outcome":%s}}`, e.x[0], e.x[1], e.y0())
		}, trains: true, advice: []string{"--label event.outcome"}},
		{name: "x and a label of another name", value: func(e *item) string { return fmt.Sprintf(`{"x":[%v,%v],"label":%s}`, e.x[0], e.x[1], e.y0()) }, trains: true},
		{name: "features and a label of other names", value: func(e *item) string { return fmt.Sprintf(`{"features":[%v,%v],"target":%s}`, e.x[0], e.x[1], e.y0()) }, trains: true},
		{name: "features with names in x", value: func(e *item) string { return fmt.Sprintf(`{"x":{"age":%v,"size":%v},"y":%s}`, e.x[0], e.x[1], e.y0()) }, trains: true},
		{name: "numbers in quotes", value: func(e *item) string { return fmt.Sprintf(`{"x":["%v","%v"],"y":%s}`, e.x[0], e.x[1], e.y1()) }, trains: true},
		{name: "arrays", value: func(e *item) string { return "[" + e.csv(",") + "," + e.y1() + "]" }, says: "in no format that a codec reads"},
		{name: "Debezium's envelope, with schema", value: func(e *item) string {
			return fmt.Sprintf(`{"schema":{"type":"struct"},"payload":{"before":null,"after":{"age":%v,"size":%v,"churn":%s},"source":{"db":"shop"},"op":"c","ts_ms":1}}`, e.x[0], e.x[1], e.y0())
		}, trains: true, advice: []string{"--label churn"}},
		{name: "Debezium's envelope, plain", value: func(e *item) string {
			return fmt.Sprintf(`{"before":null,"after":{"age":%v,"size":%v,"churn":%s},"op":"r"}`, e.x[0], e.x[1], e.y0())
		}, trains: true, advice: []string{"--label churn"}},
		{name: "Kafka Connect's schema and payload", value: func(e *item) string { return `{"schema":{"type":"struct"},"payload":` + e.pm() + `}` }, trains: true},
		{name: "CloudEvents", value: func(e *item) string { return `{"specversion":"1.0","type":"t","data":` + e.pm() + `}` }, trains: true},
		{name: "JSON, features numbered from 0", value: func(e *item) string { return fmt.Sprintf(`{"x":{"0":%v,"1":%v},"y":%s}`, e.x[0], e.x[1], e.y1()) }, trains: true},
		{name: "JSON, vectors of several lengths", value: func(e *item) string { return strings.Replace(e.pm(), "]", strings.Repeat(",1", e.i%3)+"]", 1) }, says: "cannot be read as json"},
		{name: "JSON, the first vector is of another length", value: (*item).pm, edit: before(`{"x":[1,2,3],"y":1}`), says: "the numbers of features differ"},
		{name: "JSON, NaN in many records", value: func(e *item) string {
			if e.i%3 == 0 {
				return fmt.Sprintf(`{"x":[NaN,%v],"y":%s}`, e.x[1], e.y1())
			}
			return e.pm()
		}, says: "with a number in place of a feature"},
		{name: "JSON, the records of a rare class are broken", value: func(e *item) string {
			if e.i%40 == 0 {
				return `{"x":[NaN,1],"y":1}`
			}
			return e.json("0")
		}, says: "too many of the class 1 to be left out"},

		// Text of another form.
		{name: "libsvm, features numbered from 0", value: func(e *item) string { return fmt.Sprintf("%s 0:%v 1:%v", e.y1(), e.x[0], e.x[1]) }, says: "indices start at 1"},
		{name: "CSV, NA where features are missing", value: func(e *item) string { return e.csv(",") + "," + []string{"NA", "0.5"}[e.i%2] + "," + e.y1() }, trains: true, advice: []string{"--codec csv", "--label-column 4"}},
		{name: "sentences", value: func(e *item) string { return fmt.Sprintf("Dear customer %d, thank you for your order", e.i) }, says: "no column y, label or target tells what to predict"},
		{name: "half JSON, half CSV", value: func(e *item) string {
			if e.i%2 == 0 {
				return e.csv(",") + "," + e.y1()
			}
			return e.pm()
		}, says: "the formats are mixed: 300 csv, 300 json"},

		// Bytes.
		{name: "Avro of a schema registry", value: func(e *item) string { return registryHead + "\x02" + string(e.floats()) }, says: "--codec avro --schema-registry"},
		{name: "Protobuf of a schema registry", value: func(e *item) string { return registryHead + "\x00\x0a\x08" + string(e.floats()) + "\x10\x01" }, says: "--codec protobuf"},
		{name: "JSON of a schema registry", value: func(e *item) string { return registryHead + e.pm() }, trains: true},
		{name: "MessagePack with named fields", value: func(e *item) string { return packed(map[string]any{"age": e.x[0], "fraud": e.y > 0}) }, says: "can be read as msgpack"},
		{name: "noise", value: func(e *item) string {
			h, _ := hex.DecodeString(fmt.Sprintf("d9ff00%08x00fe", uint32(e.i)*2654435761))
			return string(h)
		}, says: "in no format that a codec reads"},

		// Topics of another purpose.
		{name: "an empty topic", value: (*item).pm, edit: func([]stream.Record) []stream.Record { return nil }, says: "there are none yet"},
		{name: "empty values", value: func(*item) string { return "" }, says: "an empty value"},
		{name: "nothing but tombstones", value: (*item).pm, edit: all(func(r *stream.Record) { r.Key, r.Value = r.Value, nil }), says: "tombstones, which have a key and no value"},
		{name: "a model topic", value: (*item).pm, edit: all(func(r *stream.Record) {
			r.Headers = []stream.Header{{Key: "content-type", Value: []byte("application/vnd.streamsvm.update+msgpack")}}
		}), says: "this is a --model-topic"},
		{name: "a topic of dead letters", value: (*item).pm, edit: all(func(r *stream.Record) {
			for _, kv := range [][2]string{{"topic", "clicks"}, {"partition", "0"}, {"offset", "7"}} {
				r.Headers = append(r.Headers, stream.Header{Key: "__streamsvm.errors." + kv[0], Value: []byte(kv[1])})
			}
		}), says: "streamsvm dlq list"},
	}
}

// inTransactions writes a hundred records a transaction.
func inTransactions(t *testing.T, brokers []string, recs []stream.Record) {
	c := kafkatest.Client(t, brokers, kgo.TransactionalID("t-"+recs[0].Topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for part := range slices.Chunk(recs, 100) {
		if err := c.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		kafkatest.ProduceWith(t, c, part...)
		if err := c.EndTransaction(context.Background(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
	kafkatest.AwaitDecided(t, brokers, recs[0].Topic)
}

var dataSets [2]struct {
	once sync.Once
	all  []*item
}

// dataSet returns the examples of the topics and then those held out: the
// moons, or for a regression a plane.
func dataSet(regress bool) []*item {
	d := &dataSets[0]
	if regress {
		d = &dataSets[1]
	}
	d.once.Do(func() {
		g, err := synth.New("moons", 4, nil)
		if err != nil {
			panic(err)
		}
		for i := range kindExamples + heldOut {
			var ex stream.Example
			g.Next(&ex)
			e := &item{i: i, x: slices.Clone(ex.X.Val), y: ex.Y}
			if regress {
				e.y = math.Round(1e4*(0.5+3*float64(e.x[0])-2*float64(e.x[1]))) / 1e4
			}
			d.all = append(d.all, e)
		}
	})
	return d.all
}

// TestDoctorKinds asks doctor about each kind of topic, as somebody would who
// does not know which settings it takes, and does what it says, to the letter:
// a model comes of it that tells the classes apart, no more records become dead
// letters than it has said, or it has said that this kind is not supported.
func TestDoctorKinds(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	list := kinds()
	rows := make([]string, len(list))
	t.Run("kind", func(t *testing.T) {
		for i := range list {
			t.Run(list[i].name, func(t *testing.T) {
				t.Parallel()
				rows[i] = list[i].check(t, brokers)
			})
		}
	})
	if !t.Failed() {
		// Of kinds with the same advice, the first one.
		seen := map[string]bool{}
		for i, row := range rows {
			if cells := strings.SplitN(row, " | ", 3); len(cells) == 3 {
				if seen[cells[2]] {
					rows[i] = ""
				}
				seen[cells[2]] = true
			}
		}
		table := "| kind of topic | a record | what comes of it | what doctor says: to type, or why not |\n| --- | --- | --- | --- |\n" + strings.Join(rows, "")
		compareTable(t, "../../docs/doctor.md", "kinds", table)
	}
}

// topic makes a topic of the kind and returns its records.
func (k *kindOf) topic(t *testing.T, brokers []string) (topic string, recs []stream.Record) {
	topic = kafkatest.Topic(t, brokers, max(1, k.parts), k.config)
	for i, e := range dataSet(k.regress)[:kindExamples] {
		recs = append(recs, stream.Record{Topic: topic, Partition: int32(i % max(1, k.parts)), Value: []byte(k.value(e)), Time: time.UnixMilli(1_700_000_000_000 + int64(i)).UTC()})
	}
	if k.edit != nil {
		recs = k.edit(recs)
	}
	if k.produce != nil {
		k.produce(t, brokers, recs)
	} else {
		kafkatest.Produce(t, brokers, recs...)
	}
	return topic, recs
}

// check makes a topic, asks doctor, follows its advice, and returns a row of
// the table.
func (k *kindOf) check(t *testing.T, brokers []string) string {
	topic, recs := k.topic(t, brokers)
	examples := dataSet(k.regress)
	models, dir := kafkatest.Name(t, brokers), t.TempDir()
	state := filepath.Join(dir, "state")
	args := slices.Concat([]string{"--topics", topic}, k.args, []string{"--brokers", strings.Join(brokers, ","), "--checkpoint", state, "--model-topic", models, "--until-end", "--tune=off", "--warmup", "50"})
	if !slices.Contains(k.args, "--learner") {
		args = append(args, "--learner", "sbp")
	}
	code, out, errText := streamsvm(t.Context(), append([]string{"doctor"}, args...)...)
	advice := adviceIn(out)
	shown := func(s string) string {
		return strings.NewReplacer(topic, "TOPIC", "|", `\|`, strings.Join(brokers, ","), "BROKER").Replace(s)
	}
	row := func(outcome, todo string) string {
		first := "nothing"
		if len(recs) > 0 {
			first = shownRecord(&recs[len(recs)/2])
		}
		return fmt.Sprintf("| %s | %s | %s | %s |\n", shown(k.name), shown(first), outcome, shown(todo))
	}
	if !k.trains {
		if advice != nil || !strings.Contains(out, k.says) || code == 0 != (len(recs) == 0) || len(recs) > 0 && !strings.Contains(out, "not supported") {
			t.Errorf("exit code %d, %s\n%swant: not supported, %s", code, errText, out, k.says)
		}
		if len(recs) == 0 {
			return row("nobody knows yet", inBrief(out))
		}
		return row("not supported", inBrief(strings.ReplaceAll(out, topic, "TOPIC")))
	}
	for _, want := range k.advice {
		if !strings.Contains(out, want) {
			t.Errorf("doctor does not say %s:\n%s", want, out)
		}
	}
	switch {
	case len(k.advice) == 0 && code == 0:
		advice = append([]string{"train"}, args...)
	case advice == nil || code != int(cli.Findings):
		t.Fatalf("exit code %d, no advice, %s\n%s", code, errText, out)
	}
	if slices.Contains(advice, "--tombstones") && !strings.Contains(must(t, "train", "--help-all"), "--tombstones") {
		t.Skip("train does not skip tombstones yet")
	}
	if k.dead > 0 && !strings.Contains(out, fmt.Sprintf("%d of %d records then become dead letters", k.dead, len(recs))) {
		t.Errorf("doctor does not announce %d dead letters:\n%s", k.dead, out)
	}
	t.Cleanup(func() { kafkatest.Delete(t, brokers, topic+".dlq") })
	if code, out, errText := streamsvm(t.Context(), append(advice, "-q")...); code != 0 {
		t.Fatalf("%s: exit code %d, %s\n%s", strings.Join(advice, " "), code, out, errText)
	}
	if m := newest(t, state).Meta; m["dead"] != strconv.Itoa(k.dead) {
		t.Errorf("%s dead letters, want %d", m["dead"], k.dead)
	}
	k.score(t, brokers, models, dir, examples[kindExamples:])
	var todo []string
	for _, a := range k.advice {
		todo = append(todo, "`"+strings.ReplaceAll(a, "\t", "TAB")+"`")
	}
	outcome := "trains"
	switch {
	case k.dead > 0:
		outcome = fmt.Sprintf("trains; %d of %d records become dead letters", k.dead, len(recs))
	case len(todo) == 0:
		return "" // nothing to read about on the page
	}
	return row(outcome, strings.Join(todo, " "))
}

// score tests the newest model in the topic on examples held out.
func (k *kindOf) score(t *testing.T, brokers []string, models, dir string, examples []*item) {
	t.Helper()
	saved := filepath.Join(dir, "models")
	must(t, "model", "follow", "--brokers", strings.Join(brokers, ","), "--model-topic", models, "--until", "1", "--save", saved, "-q")
	files, err := filepath.Glob(filepath.Join(saved, "*"+ext))
	if err != nil || len(files) == 0 {
		t.Fatalf("no model has been saved: %v", err)
	}
	data := read(t, files[0])
	p, err := predictor.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	right, sum, mean, spread := 0, 0.0, 0.0, 0.0
	for _, e := range examples {
		mean += e.y / float64(len(examples))
	}
	if p.Classes() > 2 {
		return // of these kinds the classes cannot be told apart
	}
	sig := p.Signature()
	read, err := codec.New(cmp.Or(sig.Codec, "json"), codec.Options{Task: string(p.Task()), Labels: sig.Labels, CSV: sig.CSV, Schema: sig.Schema})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range examples {
		ex := stream.Example{X: stream.Vec{Val: slices.Clone(e.x)}}
		if sig.Schema != "" {
			if err := read.Decode([]byte(k.value(e)), &ex); err != nil {
				t.Fatal(err)
			}
		}
		f := p.Decision(ex.X)
		if f > 0 == (e.y > 0) {
			right++
		}
		sum += (f - e.y) * (f - e.y)
		spread += (e.y - mean) * (e.y - mean)
	}
	accuracy := float64(right) / float64(len(examples))
	if k.regress {
		accuracy = 1 - sum/spread
	} else if k.name == "JSON, labels of two words" {
		accuracy = 1 - accuracy // the order of the words is not that of the classes
	}
	if accuracy < kindLine {
		t.Errorf("the model scores %.3f, want %v", accuracy, kindLine)
	}
}

// adviceIn returns the command line that doctor advises, without the name of
// the program.
func adviceIn(out string) (args []string) {
	for line := range strings.Lines(out) {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "-> streamsvm train "); ok && args == nil {
			args = append([]string{"train"}, words(command)...)
		}
	}
	return args
}

// inBrief is what doctor says about records that are not supported, without what it says
// to do.
func inBrief(out string) string {
	_, said, _ := strings.Cut(out, "  records: ")
	said, _, _ = strings.Cut(said, "\n")
	said = strings.TrimPrefix(said, "not supported: ")
	said = strings.TrimPrefix(said, fmt.Sprintf("all %d records are ", kindExamples))
	said, _, _ = strings.Cut(said, ", which ")
	said, _, _ = strings.Cut(said, ": TOPIC/0")
	return strings.NewReplacer("<", `\<`, "[", `\[`, "*", `\*`).Replace(said)
}

// words splits a command line as a shell does.
func words(s string) (list []string) {
	var word strings.Builder
	quoted, any := false, false
	for _, r := range s {
		switch {
		case r == '\'':
			quoted, any = !quoted, true
		case r == ' ' && !quoted:
			if any {
				list = append(list, word.String())
			}
			word.Reset()
			any = false
		default:
			word.WriteRune(r)
			any = true
		}
	}
	if any {
		list = append(list, word.String())
	}
	return list
}

// shownRecord is the beginning of a record's value as the table shows it.
func shownRecord(r *stream.Record) string {
	if r.Value == nil {
		return "no value"
	}
	if len(r.Value) == 0 {
		return "empty"
	}
	if text := string(r.Value); !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0xfffd || r == 0xfeff }) {
		return "`" + firstOf(text, 64) + "`"
	} else if quoted, err := json.Marshal(text); err == nil && !bytes.Contains(quoted, []byte("\ufeff")) && !bytes.Contains(quoted, []byte(`\ufffd`)) && !bytes.Contains(quoted, []byte(`\u00`)) {
		return "`" + firstOf(text[:0]+strings.NewReplacer("\n", "\\n", "\t", "\\t", "\r", "\\r").Replace(text), 64) + "`"
	}
	return fmt.Sprintf("`%x` (hex)", r.Value[:min(len(r.Value), 20)])
}

func firstOf(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}
