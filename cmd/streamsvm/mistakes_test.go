package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
)

// A mistake is what users do, and what they must be told.
type mistake struct {
	what string
	args string // of streamsvm
	code cli.Code
	// says are parts of the last line: what is wrong, where, and what to do.
	says []string
}

var mistakes = []mistake{
	{"wrong topic", "train --topics txs", cli.Unavailable, []string{"topic txs does not exist", "correct the name"}},
	{"misspelt flag", "train --topcs tx", cli.Usage, []string{"--topcs", "did you mean --topics?"}},
	{"a flag of another program", "predict --http :8080", cli.Usage, []string{"--http", "did you mean --listen?"}},
	{"wrong codec", "train --topics tx --codec libsvm --until-end", cli.Data, []string{"tx/0 offset 0: ", "is not index:value", `"streamsvm doctor `}},
	{"wrong name of the label", "train --topics tx --label fraud --until-end", cli.Data, []string{"no field fraud", "name it with --label", "is_fraud (false, true)"}},
	{"a label in some records only", "train --topics some --label is_fraud --until-end", cli.OK, []string{"200 records consumed = 100 learned + 100 without a label + 0 sampled out"}},
	{"a header among the records of a topic", "train --topics csv --codec csv --label is_fraud --until-end", cli.Usage, []string{`no column is called "is_fraud"`, "the number of the column"}},
	{"the same, by number", "train --topics csv --codec csv --label 3 --labels false,true --until-end", cli.Data, []string{"csv/0 offset 0: decode, column 1: \"amount\" is not a number", `"streamsvm doctor `}},
	{"a JSON array", "replay array.json --label is_fraud", cli.Data, []string{"JSON array", "each of its objects on a line"}},
	{"gzip without the name", "replay zipped.jsonl --label is_fraud", cli.Data, []string{"this is gzip", "a name with .gz"}},
	{"the name without gzip", "replay plain.jsonl.gz --label is_fraud", cli.Data, []string{"plain.jsonl.gz: gzip: invalid header", "rename it"}},
	{"an empty file", "replay empty.jsonl --label is_fraud", cli.Data, []string{"there are no records"}},
	{"one class only", "replay one.jsonl --label is_fraud", cli.Data, []string{"label +1 was seen 200 times, label -1 never"}},
	{"NaN in a field of numbers", "replay nan.jsonl --label is_fraud", cli.Data, []string{"nan.jsonl/0 offset 150: feature, amount: NaN is not a finite float32", "--tolerance data"}},
	{"a text in a field of numbers", "train --topics text --label is_fraud --until-end", cli.Data, []string{"text/0 offset 150: feature, amount: the text \"much\"", "--tolerance data"}},
	{"a model of another version", "predict --model newer.ssm tx.jsonl", cli.Data, []string{"newer.ssm: not a model, or written by a newer version"}},
	{"missing fields at prediction", "predict --model model.ssm other.jsonl", cli.OK, []string{"no record has the field amount", "another name"}},
	{"port in use", "predict --model model.ssm --listen PORT", cli.Unavailable, []string{"--listen", "another process listens on", "choose another port"}},
	{"a directory that cannot be written", "train --topics tx --label is_fraud --checkpoint tx.jsonl/state", cli.IO, []string{"tx.jsonl/state: not a directory"}},
	{"a time stamp as a feature", "schema infer tx.jsonl --label is_fraud", cli.OK, []string{"created_at: {type: time, unit: s, parts: [hour, weekday]}"}},
	{"a second trainer of the model, with a directory of its own", "train --topics tx --label is_fraud --model-topic models --checkpoint second", cli.Config, []string{"topic models holds version", "does not come from the checkpoints in second", "--model-name"}},
}

// TestMistakes makes ordinary mistakes as a user makes them, and documents what is said.
func TestMistakes(t *testing.T) {
	doc, err := filepath.Abs("../../docs/failures.md")
	if err != nil {
		t.Fatal(err)
	}
	broker := kafkatest.Embedded(t).Addr()
	t.Chdir(t.TempDir())
	records := make([]string, 200)
	for i := range records {
		records[i] = fmt.Sprintf(`{"amount":%d.5,"created_at":%d,"is_fraud":%t}`, i*37%100, 1_700_000_000+i*60, i*37%100 > 50)
	}
	// lines are the records, each after an edit.
	lines := func(edit func(i int, r string) string) string {
		var b strings.Builder
		for i, r := range records {
			b.WriteString(edit(i, r) + "\n")
		}
		return b.String()
	}
	amount := regexp.MustCompile(`"amount":[^,]*`)
	plain := lines(func(_ int, r string) string { return r })
	csv := "amount,created_at,is_fraud\n" + lines(func(_ int, r string) string {
		return regexp.MustCompile(`[{}"a-z_]+:`).ReplaceAllString(strings.Trim(r, "{}"), "")
	})
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write([]byte(plain))
	z.Close()
	for name, text := range map[string]string{
		"tx.jsonl": plain,
		"some.jsonl": lines(func(i int, r string) string {
			if i%2 > 0 {
				r = r[:strings.Index(r, `,"is_fraud"`)] + "}"
			}
			return r
		}),
		"csv.csv":      csv,
		"array.json":   "[" + strings.Join(records, ",\n") + "]\n",
		"zipped.jsonl": zipped.String(), "plain.jsonl.gz": plain, "empty.jsonl": "",
		"one.jsonl": strings.ReplaceAll(plain, "false", "true"),
		"nan.jsonl": lines(func(i int, r string) string {
			if i == 150 {
				r = amount.ReplaceAllString(r, `"amount":NaN`)
			}
			return r
		}),
		"text.jsonl": lines(func(i int, r string) string {
			if i == 150 {
				r = amount.ReplaceAllString(r, `"amount":"much"`)
			}
			return r
		}),
		"other.jsonl": `{"amnt":82,"created_at":1700000000}`,
	} {
		write(t, name, text)
	}
	for topic, file := range map[string]string{"tx": "tx.jsonl", "some": "some.jsonl", "text": "text.jsonl"} {
		must(t, "copy", file, "--topic", topic, "--partitions", "1", "--brokers", broker)
	}
	must(t, "copy", "csv.csv", "--topic", "csv", "--partitions", "1", "--brokers", broker)
	must(t, "replay", "tx.jsonl", "--label", "is_fraud", "--model", "model.ssm")
	model := read(t, "model.ssm")
	write(t, "newer.ssm", bytes.Replace(model, []byte("predictor-3"), []byte("predictor-4"), 1))
	train := []string{"--topics", "tx", "--label", "is_fraud", "--model-topic", "models", "--checkpoint", "first", "--brokers", broker}
	must(t, append([]string{"train", "--until-end"}, train...)...)
	if said := must(t, append([]string{"doctor"}, train...)...); !strings.Contains(said, "checkpoint first: continues after ") {
		t.Errorf("doctor says %s", said)
	}
	train[3] = "amount"
	if _, said, _ := streamsvm(t.Context(), append([]string{"doctor"}, train...)...); !strings.Contains(said, `made with events "label: is_fraud", the configuration says "label: amount"`) {
		t.Errorf("with another label, doctor says %s", said)
	}
	carts := ""
	for i := range 300 {
		carts += fmt.Sprintf(`{"cart":[{"price":%d}],"bad":%t}`+"\n", i%50, i%2 == 0)
	}
	write(t, "carts.jsonl", carts)
	write(t, "none.jsonl", `{"cart":[]}`+"\n")
	must(t, "replay", "carts.jsonl", "--label", "bad", "--learner", "online", "--model", "carts.ssm")
	if _, _, said := streamsvm(t.Context(), "predict", "--model", "carts.ssm", "none.jsonl"); strings.Contains(said, "no record has") {
		t.Errorf("of an empty list, predict says %s", said)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()

	names := strings.NewReplacer(broker, "BROKER", taken.Addr().String(), "127.0.0.1:9100", "|", `\|`)
	var table bytes.Buffer
	fmt.Fprintf(&table, "| | command | what it says | exit code |\n| --- | --- | --- | --- |\n")
	by := regexp.MustCompile(`\(it was claimed by .*\)`) // a process and a time
	row := func(what, args, said string, code any) {
		said = by.ReplaceAllString(said, "(it was claimed by …)")
		fmt.Fprintf(&table, "| %s | `%s` | %s | %v |\n", what, args, names.Replace(said), code)
	}
	for _, m := range mistakes {
		args := strings.Fields(strings.Replace(m.args, "PORT", taken.Addr().String(), 1))
		if args[0] == "train" {
			args = append(args, "--brokers", broker)
		}
		code, out, said := streamsvm(t.Context(), args...)
		if said = strings.TrimSpace(said); said == "" {
			said = strings.TrimSpace(out)
		}
		said = strings.TrimSpace(said[strings.LastIndexByte(said, '\n')+1:])
		for _, want := range m.says {
			if !strings.Contains(said, want) {
				t.Errorf("%s: %q is not in %q", m.what, want, said)
			}
		}
		if code != int(m.code) {
			t.Errorf("%s: exit code %d, want %d: %s", m.what, code, m.code, said)
		}
		row(m.what, strings.Replace(m.args, "PORT", "127.0.0.1:9100", 1), strings.TrimPrefix(said, "streamsvm: "), code)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, _, said := streamsvm(ctx, "train", "--topics", "tx", "--brokers", "127.0.0.1:1")
	_, said, _ = strings.Cut(said, " level=")
	said, _, _ = strings.Cut(said, "\n")
	if !strings.Contains(said, "127.0.0.1:1: connect: connection refused") {
		t.Errorf("wrong broker: %q", said)
	}
	row("wrong broker", "train --topics tx --brokers 127.0.0.1:1", said, "goes on")

	// Ctrl-C comes with the first line of progress.
	must(t, "generate", "moons", "--count", "5000", "--out", "moons.libsvm")
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	errs := &trigger{on: "\n", do: cancel}
	code := program().Main(ctx, []string{"replay", "moons.libsvm"}, cli.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: errs, Getenv: func(string) (string, bool) { return "", false }})
	said = strings.TrimSpace(errs.String())
	said = regexp.MustCompile(`\d+`).ReplaceAllString(said[strings.LastIndexByte(said, '\n')+1:], "…")
	if code != int(cli.Temporary) || said != "streamsvm: interrupted after … records" {
		t.Errorf("Ctrl-C: exit code %d, %s", code, errs)
	}
	row("Ctrl-C", "replay moons.libsvm", strings.TrimPrefix(said, "streamsvm: "), code)

	// The second trainer on a directory takes over, and the first ends.
	feed := func(args ...string) {
		must(t, append([]string{"generate", "moons", "--count", "500", "--topic", "moons", "--brokers", broker}, args...)...)
	}
	feed("--partitions", "1")
	args := "train --topics moons --checkpoint shared"
	both := append(strings.Fields(args), "--brokers", broker, "--checkpoint-interval", "100ms", "--learner", "sbp", "--tune=off", "-q")
	done := make(chan struct{})
	go func() {
		defer close(done)
		code, _, said = streamsvm(t.Context(), both...)
	}()
	wait(t, done, func() bool { files, _ := filepath.Glob("shared/*.ssc"); return len(files) > 1 })
	must(t, append(both, "--until-end")...)
	feed()
	<-done
	_, said, _ = strings.Cut(strings.TrimSpace(said), "checkpoint: ")
	if code != int(cli.Fenced) || !strings.Contains(said, "another process has claimed the directory") {
		t.Errorf("two trainers: exit code %d, %s", code, said)
	}
	row("two trainers on one directory: the first", args, said, code)

	compareTable(t, doc, "mistakes", table.String())
}

// trigger keeps what is written, and calls do once it has on.
type trigger struct {
	buffer
	on string
	do func()
}

func (w *trigger) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.on) {
		w.do()
	}
	return w.buffer.Write(p)
}
