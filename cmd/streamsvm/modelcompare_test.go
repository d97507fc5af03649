package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

// TestModelCompareRecords: two versions are compared on the records of a recording from
// which neither has learned, and each has the accuracy that predict has with it.
func TestModelCompareRecords(t *testing.T) {
	c := newCluster(t)
	topic, models := c.trained()
	held, dir := kafkatest.Topic(t, c.brokers, 1, nil), t.TempDir()
	for _, to := range []string{topic, held} {
		c.run("generate", "moons", "--count", "2000", "--skip", "20000", "--topic", to, "-q")
	}
	for _, bad := range []string{`{"x":[1,2]}`, `{"x":[1,2],"y":`} {
		kafkatest.Produce(t, c.brokers, stream.Record{Topic: topic, Value: []byte(bad)})
	}
	file := filepath.Join(dir, "today.ssr")
	c.run("copy", file, "--topics", topic, "--start", "earliest", "--until-end", "-q")
	newest := 0
	fmt.Sscan(strings.Fields(c.run("model", "promote", "--model-topic", models))[4], &newest)
	args := []string{"model", "compare", "1", "champion", file, "--model-topic", models}
	r := decode[modelComparison](t, c.run(append(args, "--json")...))
	if len(r.Models) != 2 || r.Learned != 3000 || r.Refused != 1 || r.Unlabelled != 1 {
		t.Fatalf("%+v", r)
	}
	c.run("model", "promote", "--model-topic", models, "--version", "1", "--alias", "first")
	for i, alias := range []string{"first", "champion"} {
		m := r.Models[i]
		_, _, text := streamsvm(t.Context(), "predict", "--model-topic", models, "--model-name", "model", "--alias", alias, "--topics", held, "--predictions-topic", c.name(), "--until-end", "--brokers", strings.Join(c.brokers, ","))
		if want := "accuracy " + eval.Percent(m.Common); m.Examples != 2000 || m.Common != m.Prequential.Accuracy || !strings.Contains(text, want) {
			t.Errorf("%+v, predict says %s", m, text)
		}
	}
	worse, better := r.Models[0], r.Models[1]
	if worse.Common > better.Common {
		worse, better = better, worse
	}
	diff := float64(better.Common - worse.Common)
	if b := worse.Behind; better.Behind != nil || b == nil || !(b[0] <= diff && diff <= b[1]) {
		t.Errorf("%+v", r.Models)
	}
	out := c.run(args...)
	for _, want := range []string{"behind the best", "\nchampion  ", "\nbaselines: ", "\nleft out: 3000 records a model has learned from\nleft out: 1 record without a label\nleft out: 1 record that could not be scored\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
}

// TestModelCompareFiles: models of other forms of records, and a regression.
func TestModelCompareFiles(t *testing.T) {
	dir := t.TempDir()
	var events, ramp strings.Builder
	ramp.WriteString("x,y\n")
	for i, p := range purchases(3000) {
		fmt.Fprintf(&events, `{"country":%q,"amount":%g,"hour":%d,"fraud":%v}`+"\n", p.country, p.amount, p.hour, p.zeroOne() == 1)
		fmt.Fprintf(&ramp, "%d,%d\n", i%7, 3*(i%7)+i%2)
	}
	file, rows := filepath.Join(dir, "events.json"), filepath.Join(dir, "ramp.csv")
	write(t, file, events.String())
	write(t, rows, ramp.String())
	model := func(name string, args ...string) string {
		t.Helper()
		path := filepath.Join(dir, name+".ssm")
		must(t, append(append([]string{"replay"}, args...), "--tune=off", "-q", "--model", path)...)
		return path
	}
	a, b := model("a", file, "--label", "fraud", "--limit", "300", "--learner", "scs"), model("b", file, "--label", "fraud", "--learner", "scs")
	r := decode[modelComparison](t, must(t, "model", "compare", a, b, file, "--json"))
	if m := r.Models; len(m) != 2 || m[0].Examples != 3000 || !(m[0].Common < m[1].Common) || m[0].Behind == nil || m[1].Behind != nil {
		t.Errorf("%+v", r)
	}
	x, y := model("x", rows, "--task", "regress", "--csv-header", "--label-column", "y", "--learner", "online", "--limit", "100"), model("y", rows, "--task", "regress", "--csv-header", "--label-column", "y", "--learner", "ridge")
	r = decode[modelComparison](t, must(t, "model", "compare", x, y, rows, "--json"))
	if m := r.Models; len(m) != 2 || m[1].Examples != 3000 || !(m[1].Common < m[0].Common) || m[0].Behind == nil || !(m[0].Behind[0] > 0) {
		t.Errorf("%+v", r)
	}
	if out := must(t, "model", "compare", x, y, rows); !strings.Contains(out, "mean abs. error") || strings.Contains(out, "baselines") {
		t.Error(out)
	}
	none, unlabelled := filepath.Join(dir, "none.json"), filepath.Join(dir, "unlabelled.json")
	write(t, none, "")
	write(t, unlabelled, `{"amount":1}`)
	for args, want := range map[string]string{
		a + " " + b + " " + none:       "no record to compare the models on\n",
		a + " " + b + " " + unlabelled: "no record to compare the models on; left out: 1 record without a label\n",
		a + " " + b:                    "model compare takes two of",
		a + " " + x + " " + file:       "is for task classify",
		a + " " + b + " " + "absent":   "absent",
		"1 2 " + file:                  "no topic is given",
	} {
		if code, _, errText := streamsvm(t.Context(), append([]string{"model", "compare"}, strings.Fields(args)...)...); code == 0 || !strings.Contains(errText, want) {
			t.Errorf("%s: exit code %d, %s", args, code, errText)
		}
	}
	code, _, errText := streamsvm(t.Context(), "compare", "--model-topic", "m")
	if code != int(cli.Usage) || !strings.Contains(errText, "command \"compare\" has been removed: streamsvm model compare A B FILE...") {
		t.Errorf("exit code %d, %s", code, errText)
	}
}
