package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

// wire writes example i of a stream of three features as codec has it.
func wire(codec string, i int) string {
	y := 1 - 2*(i%2)
	x := [3]float32{float32(y*(i%5)) + 0.5, float32(i * i % 11), 0.25}
	switch codec {
	case "libsvm":
		return fmt.Sprintf("%+d 1:%v 2:%v 3:%v", y, x[0], x[1], x[2])
	case "json":
		return fmt.Sprintf(`{"x":[%v,%v,%v],"y":%d}`, x[0], x[1], x[2], y)
	case "csv":
		return fmt.Sprintf("%v,%v,%v,%d", x[0], x[1], x[2], y)
	}
	b := []byte("\x82\xa1y" + string(rune(1)) + "\xa1x\xc4\x0c")
	if y < 0 {
		b[3] = 0xff
	}
	for _, v := range x {
		b, _ = binary.Append(b, binary.LittleEndian, v)
	}
	return string(b)
}

// denormal holds, by codec, values with the smallest numbers that a float32 can
// be, which are numbers like others.
var denormal = map[string]string{
	"libsvm": "+1 1:1e-45 2:-1e-40 3:1", "json": `{"x":[1e-45,-1e-40,1],"y":1}`, "csv": "1e-45,-1e-40,1,1",
	"msgpack": "\x82\xa1y\x01\xa1x\xc4\x0c\x01\x00\x00\x00\xc2\x16\x01\x80\x00\x00\x80\x3f",
}

// large holds, by codec, values of up to 900 kB that are too much in some way,
// and short ones that claim to be.
var large = map[string][]string{
	"libsvm": {
		"+1 " + strings.Repeat("1:1 ", 225_000), "+1 1:" + strings.Repeat("9", 900_000), "+1 " + strings.Repeat(":", 900_000),
		"+1 18446744073709551617:1", "+1 " + strings.Repeat("9", 100_000) + ":1", "+1 qid:" + strings.Repeat("7", 100_000) + " x", strings.Repeat("+", 900_000),
	},
	"json": {
		`{"x":[` + strings.Repeat("1,", 450_000) + `1],"y":1}`, `{"x":[` + strings.Repeat("9", 900_000) + `],"y":1}`, strings.Repeat(`{"x":`, 150_000),
		strings.Repeat("[", 900_000), `{"x":{"18446744073709551617":1},"y":1}`, `{"x":[1,2,3],"y":1e99999999999}`, `{"` + strings.Repeat("a", 900_000),
		`{"z":` + strings.Repeat("[", 400_000) + strings.Repeat("]", 400_000) + `,"x":[1,2,3],"y":1}`,
	},
	"csv": {
		strings.Repeat("1,", 450_000) + "1", strings.Repeat("9", 900_000) + ",1,1,1", `"` + strings.Repeat("1", 900_000), strings.Repeat(",", 900_000),
		strings.Repeat("1\n", 450_000), "1,1,1e99999999999,1",
	},
	"msgpack": {
		"\x82\xa1x\xdd\x00\x06\xdd\xd0" + strings.Repeat("\x01", 450_000) + "\xa1y\x01", "\x81\xa1x\xdd\xff\xff\xff\xff", "\x81\xa1x\xc6\xff\xff\xff\xff",
		"\xdf\xff\xff\xff\xff", "\x81\xa1x\xdd\x7f\xff\xff\xff" + strings.Repeat("\x91", 900_000), strings.Repeat("\x81\xa1x", 300_000), strings.Repeat("\x91", 900_000),
		"\x81\xa1x\x82\xa1i\xc6\x40\x00\x00\x00\xa1v\xc6\x40\x00\x00\x00", "\x81\xa1z\xc9\xff\xff\xff\xff\x01", "\x82\xa1x\xc4\x0d" + strings.Repeat("\x00", 13) + "\xa1y\x01",
	},
}

// whole says which prefixes of values are values of their own: those of
// libsvm and csv have no end mark. Without its label, a row of csv is an
// unlabelled example.
var whole = map[string]*regexp.Regexp{
	"libsvm": regexp.MustCompile(`^[+-]1( 1:-?\d+(\.\d*)?( 2:\d+( 3:\d+(\.\d*)?)?)?)? ?$`),
	"csv":    regexp.MustCompile(`^-?\d+(\.\d+)?,\d+,\d+(\.\d*)?,(-?1)?$`),
}

// TestBadMessages feeds train a stream in which every example is followed by one
// that is cut off, at each length in turn, or too large, or claims to be: each of
// these has one letter with its value, and what is learned is what the others
// alone give.
func TestBadMessages(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	for _, codec := range []string{"json", "libsvm", "csv", "msgpack"} {
		good := kafkatest.Topic(t, brokers, 1, nil)
		mixed := kafkatest.Topic(t, brokers, 1, map[string]string{"max.message.bytes": "4000000"})
		kafkatest.Create(t, brokers, mixed+".dlq", 1, map[string]string{"max.message.bytes": "4000000"})
		t.Cleanup(func() { kafkatest.Delete(t, brokers, mixed+".dlq") })
		var bad []string
		var goodRecs, mixedRecs []stream.Record
		unlabelled := 0
		put := func(value string, ok bool) {
			if ok && strings.HasSuffix(value, ",") {
				unlabelled++
			}
			if ok {
				goodRecs = append(goodRecs, stream.Record{Topic: good, Value: []byte(value)})
			} else {
				bad = append(bad, value)
			}
			mixedRecs = append(mixedRecs, stream.Record{Topic: mixed, Value: []byte(value)})
		}
		i := 0
		next := func() string { i++; return wire(codec, i) }
		for range 20 {
			put(next(), true)
		}
		put(denormal[codec], true)
		for range 4 {
			v := next()
			for n := range v {
				part := v[:n]
				ok := whole[codec] != nil && whole[codec].MatchString(part)
				put(part, ok)
				put(next(), true)
			}
		}
		for _, v := range large[codec] {
			put(v, false)
			put(next(), true)
		}
		kafkatest.Produce(t, brokers, goodRecs...)
		kafkatest.Produce(t, brokers, mixedRecs...)
		dir := t.TempDir()
		args := []string{"train", "--brokers", strings.Join(brokers, ","), "--codec", codec, "--until-end", "--learner", "sbp", "--tune=off", "--warmup", "10", "-q",
			"--max-features", "100", "--tolerance", "data", "--dlq", "--log-level", "error"}
		if codec == "csv" {
			args = append(args, "--label-column", "last")
		}
		must(t, append(args, "--topics", good, "--checkpoint", filepath.Join(dir, "good"))...)
		must(t, append(args, "--topics", mixed, "--checkpoint", filepath.Join(dir, "mixed"))...)
		m := newest(t, filepath.Join(dir, "mixed")).Meta
		if m["consumed"] != fmt.Sprint(len(mixedRecs)) || fmt.Sprint(m["learned"], "+", m["sampled_out"]) != fmt.Sprint(len(goodRecs)-unlabelled, "+", unlabelled) || m["dead"] != fmt.Sprint(len(bad)) || m["pending"] != "0" {
			t.Errorf("%s: fates %v of %d good and %d bad", codec, m, len(goodRecs), len(bad))
		}
		if !bytes.Equal(learnerState(t, filepath.Join(dir, "mixed")), learnerState(t, filepath.Join(dir, "good"))) {
			t.Errorf("%s: the learner is not that of the good records alone", codec)
		}
		letters := kafkatest.ReadAll(t, brokers, mixed+".dlq")
		for k, r := range letters {
			l, err := deadletter.Parse(&r)
			if err != nil || k >= len(bad) || string(r.Value) != bad[k] {
				t.Fatalf("%s: letter %d of %d is %+v with %.40q, %v", codec, k, len(bad), l, r.Value, err)
			}
			if n := len(l.Message); n > 300 {
				t.Errorf("%s: a message of %d bytes about %.40q", codec, n, bad[k])
			}
		}
		if len(letters) != len(bad) {
			t.Errorf("%s: %d letters about %d bad records", codec, len(letters), len(bad))
		}

		// Without tolerance the first one ends the run.
		strict := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--tolerance" || a == "data" || a == "--dlq" })
		code, _, said := streamsvm(t.Context(), append(strict, "--topics", mixed, "--checkpoint", filepath.Join(dir, "strict"))...)
		if code != int(cli.Data) || !strings.Contains(said, mixed+"/0 offset 21: ") {
			t.Errorf("%s, not tolerated: exit code %d, %s", codec, code, said)
		}
	}
}
