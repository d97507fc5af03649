package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

// badValue is a value that cannot be used, with what must be said about it.
type badValue struct {
	codec, what, value string
	stage              stream.Stage
	reason             stream.Reason
}

// hexed is the value that hexadecimal digits stand for.
func hexed(digits string) string {
	b, err := hex.DecodeString(digits)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// badValues are values for a stream of two dense features, or sparse ones, and
// labels −1 and +1.
var badValues = []badValue{
	{"json", "nothing", "", stream.StageDecode, stream.ReasonEmpty},
	{"json", "another format", "+1 1:0.5", stream.StageDecode, stream.ReasonSyntax},
	{"json", "cut off", `{"x":[0.5,1.2`, stream.StageDecode, stream.ReasonSyntax},
	{"json", "a number as text", `{"x":["0.5",1],"y":1}`, stream.StageDecode, stream.ReasonSyntax},
	{"json", "NaN", `{"x":[NaN,1],"y":1}`, stream.StageFeature, stream.ReasonNotFinite},
	{"json", "more than a float32 holds", `{"x":[1e60,1],"y":1}`, stream.StageFeature, stream.ReasonNotFinite},
	{"json", "wrong dimension", `{"x":[1,2,3],"y":1}`, stream.StageFeature, stream.ReasonDimension},
	{"json", "index 0", `{"x":{"0":1},"y":1}`, stream.StageDecode, stream.ReasonIndex},
	{"json", "a feature twice", `{"x":{"1":1,"01":2},"y":1}`, stream.StageDecode, stream.ReasonDuplicate},
	{"json", "index above the limit", `{"x":{"16777217":1},"y":1}`, stream.StageFeature, stream.ReasonLimit},
	{"json", "unknown label", `{"x":[1,2],"y":7}`, stream.StageLabel, stream.ReasonLabel},
	{"json", "no features", `{"y":1}`, stream.StageDecode, stream.ReasonMissing},
	{"libsvm", "nothing", "", stream.StageDecode, stream.ReasonEmpty},
	{"libsvm", "no label but text", "yes 1:1", stream.StageLabel, stream.ReasonSyntax},
	{"libsvm", "cut off", "+1 1:0.5 2:", stream.StageDecode, stream.ReasonSyntax},
	{"libsvm", "unordered indices", "+1 3:1 2:1", stream.StageDecode, stream.ReasonOrder},
	{"libsvm", "a feature twice", "+1 3:1 3:1", stream.StageDecode, stream.ReasonOrder},
	{"libsvm", "index 0", "+1 0:1", stream.StageDecode, stream.ReasonIndex},
	{"libsvm", "index above the limit", "+1 16777217:1", stream.StageFeature, stream.ReasonLimit},
	{"libsvm", "NaN", "+1 1:nan", stream.StageFeature, stream.ReasonNotFinite},
	{"libsvm", "Inf", "+1 1:-inf", stream.StageFeature, stream.ReasonNotFinite},
	{"libsvm", "unknown label", "3 1:1", stream.StageLabel, stream.ReasonLabel},
	{"csv", "an empty field", "1,,1", stream.StageDecode, stream.ReasonEmpty},
	{"csv", "text", "1,red,1", stream.StageDecode, stream.ReasonSyntax},
	{"csv", "a quote without end", `1,"2,1`, stream.StageDecode, stream.ReasonSyntax},
	{"csv", "Inf", "inf,1,1", stream.StageFeature, stream.ReasonNotFinite},
	{"csv", "unknown label", "1,2,0", stream.StageLabel, stream.ReasonLabel},
	{"msgpack", "nothing", "", stream.StageDecode, stream.ReasonEmpty},
	{"msgpack", "no map", hexed("93010203"), stream.StageDecode, stream.ReasonType},
	{"msgpack", "cut off", hexed("82a17892ca3f00"), stream.StageDecode, stream.ReasonSyntax},
	{"msgpack", "a list of 2³² elements", hexed("81a178ddffffffff"), stream.StageDecode, stream.ReasonSyntax},
	{"msgpack", "4 GiB of bytes", hexed("81a178c6ffffffff"), stream.StageDecode, stream.ReasonSyntax},
	{"msgpack", "NaN", hexed("82a17892ca7fc0000001a17901"), stream.StageFeature, stream.ReasonNotFinite},
	{"msgpack", "unordered indices", hexed("82a17882a169920201a176920101a17901"), stream.StageDecode, stream.ReasonOrder},
	{"msgpack", "a label as text", hexed("82a178920101a179a131"), stream.StageLabel, stream.ReasonType},
}

// goodValues are the records before and after badValues in their streams.
var goodValues = map[string][2]string{
	"json": {`{"x":[0.5,1],"y":1}`, `{"x":[1,2],"y":-1}`}, "libsvm": {"+1 1:0.5", "-1 1:1"}, "csv": {"0.5,1,1", "1,2,-1"},
	"msgpack": {hexed("82a178920101a17901"), hexed("82a178920102a179ff")},
}

// shown is a value as the documentation prints it.
func shown(v string) string {
	switch {
	case v == "":
		return ""
	case !utf8.ValidString(v) || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' }):
		return fmt.Sprintf("`%x` (hex)", v)
	}
	return "`" + v + "`"
}

// TestBadInputs feeds every bad value to train, alone, and documents what is
// said: without tolerance the run ends with exit code 65 and names the record;
// with it the good records are learned and the bad one becomes a dead letter.
func TestBadInputs(t *testing.T) {
	c := newCluster(t)
	var table bytes.Buffer
	shownReasons := map[stream.Reason]bool{}
	fmt.Fprintf(&table, "| codec | | value | what is said, after topic, partition and offset | reason |\n| --- | --- | --- | --- | --- |\n")
	for _, b := range badValues {
		topic := kafkatest.Topic(t, c.brokers, 1, nil)
		for _, v := range []string{goodValues[b.codec][0], b.value, goodValues[b.codec][1]} {
			kafkatest.Produce(t, c.brokers, stream.Record{Topic: topic, Value: []byte(v)})
		}
		args := []string{"train", "--topics", topic, "--codec", b.codec, "--brokers", strings.Join(c.brokers, ","), "--until-end", "--labels", "pm1", "--events", "vectors", "--learner", "sbp", "--tune=off", "--warmup", "1"}
		if b.codec == "csv" {
			args = append(args, "--label-column", "last")
		}
		code, _, errText := streamsvm(t.Context(), append(args, "-q", "--tolerance", "none")...)
		at := topic + "/0 offset 1: "
		_, said, found := strings.Cut(errText, at)
		said, _, tolerable := strings.Cut(strings.TrimSpace(said), "; --tolerance data")
		found = found && tolerable
		if code != int(cli.Data) || !found || !strings.HasPrefix(said, string(b.stage)) {
			t.Errorf("%s, %s: exit code %d, %q", b.codec, b.what, code, errText)
		}
		code, _, errText = streamsvm(t.Context(), append(args, "--tolerance", "data", "--dlq")...)
		if code != 0 || !strings.Contains(errText, "3 records consumed = 2 learned + 0 sampled out + 1 dead") {
			t.Errorf("%s, %s, tolerated: exit code %d, %q", b.codec, b.what, code, errText)
		}
		letters := kafkatest.ReadAll(t, c.brokers, topic+".dlq")
		if len(letters) != 1 {
			t.Fatalf("%s, %s: %d letters\n%s", b.codec, b.what, len(letters), errText)
		}
		l, err := deadletter.Parse(&letters[0])
		if err != nil || l.Topic != topic || l.Partition != 0 || l.Offset != 1 || l.Stage != string(b.stage) || l.Reason != string(b.reason) || string(letters[0].Value) != b.value {
			t.Errorf("%s, %s: letter %+v with value %q, %v", b.codec, b.what, l, letters[0].Value, err)
		}
		kafkatest.Delete(t, c.brokers, topic+".dlq")
		if b.codec != "json" && shownReasons[b.reason] {
			continue // as for JSON
		}
		shownReasons[b.reason] = true
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s |\n", b.codec, b.what, shown(b.value), strings.ReplaceAll(said, "|", `\|`), b.reason)
	}
	compareTable(t, "../../docs/failures.md", "bad input", table.String())
}

// compareTable compares the part of a document between two comments with what
// it should be, and puts it there if asked to.
func compareTable(t *testing.T, path, name, want string) {
	t.Helper()
	text := read(t, path)
	begin, end := "<!-- "+name+": written by go test ./cmd/streamsvm -run "+t.Name()+" -update -->\n", "<!-- end of "+name+" -->"
	head, rest, ok1 := strings.Cut(string(text), begin)
	got, tail, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for %s", path, name)
	}
	if *update {
		write(t, path, head+begin+want+end+tail)
	} else if got != want {
		t.Errorf("%s: the table is old, run go test -update:\n%s", path, want)
	}
}
