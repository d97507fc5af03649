package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

// transactions returns the path of a model of events.
func transactions(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for i := range 600 {
		vip, country := i%7 < 3, []string{"DE", "FR", "BR"}[i%3]
		fmt.Fprintf(&b, `{"id":"t%d","amount":%d,"country":%q,"customer":{"vip":%t},"fraud":%t}`+"\n", i, i%50, country, vip, (i%50 > 25) != vip)
	}
	dir := t.TempDir()
	in, model := filepath.Join(dir, "tx.jsonl"), filepath.Join(dir, "tx.ssm")
	write(t, in, b.String())
	must(t, append([]string{"replay", in, "--label", "fraud", "--model", model}, learn...)...)
	return model
}

// TestPredictTopic: what goes with a prediction, and where records go that have
// none.
func TestPredictTopic(t *testing.T) {
	c := newCluster(t)
	model := transactions(t)
	in, out, bad := c.name(), c.name(), c.name()
	header := func(key, value string) stream.Header { return stream.Header{Key: key, Value: []byte(value)} }
	trace := header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	at := time.Now().Truncate(time.Millisecond)
	kafkatest.Create(t, c.brokers, in, 1, nil)
	kafkatest.Produce(t, c.brokers,
		stream.Record{Topic: in, Time: at, Key: []byte("k"), Value: []byte(`{"id":"t1","amount":1.50,"country":"DE","customer":{"vip":true,"name":"é"},"n":{"deep":[1]}}`), Headers: []stream.Header{trace, header("secret", "x")}},
		stream.Record{Topic: in, Time: at, Value: []byte(`{"id":"t2","amount":"much"}`), Headers: []stream.Header{trace, header("tracestate", "a=b")}},
		stream.Record{Topic: in, Time: at, Value: []byte(`{"amount":`)},
	)
	args := []string{"predict", "--model", model, "--topics", in, "--until-end", "-q", "--keep", "amount,customer.vip,n", "--cloudevents"}
	c.run(append(args, "--predictions-topic", out, "--errors-topic", bad)...)

	type scoredEvent struct {
		ID    string          `json:"id"`
		Label *bool           `json:"label"`
		Error string          `json:"error"`
		Input json.RawMessage `json:"input"`
	}
	headers := func(r stream.Record) string {
		var list []string
		for _, h := range r.Headers {
			list = append(list, h.Key+"="+string(h.Value))
		}
		return strings.Join(list, " ")
	}
	recs := kafkatest.ReadAll(t, c.brokers, out)
	if len(recs) != 1 {
		t.Fatalf("%d predictions, want 1", len(recs))
	}
	e := decode[scoredEvent](t, string(recs[0].Value))
	if e.ID != "t1" || e.Label == nil || string(e.Input) != `{"amount":1.50,"customer.vip":true,"n":{"deep":[1]}}` {
		t.Errorf("the prediction is %s", recs[0].Value)
	}
	want := "content-type=application/json ce_specversion=1.0 ce_type=streamsvm.prediction ce_source=/streamsvm/ ce_id=" + in + "/0/0 ce_subject=t1 ce_time=" +
		at.UTC().Format(time.RFC3339Nano) + " " + trace.Key + "=" + string(trace.Value)
	if got := headers(recs[0]); got != want {
		t.Errorf("headers %s\nwant    %s", got, want)
	}
	letters := kafkatest.ReadAll(t, c.brokers, bad)
	if len(letters) != 2 {
		t.Fatalf("%d letters, want 2", len(letters))
	}
	for i, r := range letters {
		l, err := deadletter.Parse(&r)
		if err != nil || l.Topic != in || l.Offset != int64(i+1) || l.Stage != []string{"feature", "decode"}[i] || !strings.HasPrefix(string(r.Value), `{`) {
			t.Errorf("letter %+v of %s, %v", l, r.Value, err)
		}
		if i == 0 && len(l.Headers) != 2 {
			t.Errorf("the letter has the headers %v of its record", l.Headers)
		}
	}
	if list := c.run("dlq", "list", bad); !strings.Contains(list, "2 dead letters") || !strings.Contains(list, "amount") {
		t.Errorf("dlq list: %s", list)
	}

	// Without a topic of their own, errors are among the predictions.
	second := c.name()
	code, _, text := streamsvm(t.Context(), append(args, "--predictions-topic", second, "--headers", "secret", "--brokers", strings.Join(c.brokers, ","))...)
	recs = kafkatest.ReadAll(t, c.brokers, second)
	if code != int(cli.Data) || len(recs) != 3 {
		t.Fatalf("exit code %d, %s; %d records, want 3", code, text, len(recs))
	}
	if h := headers(recs[0]); strings.Contains(h, "traceparent") || !strings.HasSuffix(h, " secret=x") {
		t.Errorf("headers %s", h)
	}
	e = decode[scoredEvent](t, string(recs[1].Value))
	if e.Error == "" || string(e.Input) != `{"amount":"much"}` || !strings.Contains(headers(recs[1]), "ce_type=streamsvm.prediction.error") {
		t.Errorf("an error is %s, %s", recs[1].Value, headers(recs[1]))
	}
	if e = decode[scoredEvent](t, string(recs[2].Value)); e.Error == "" || e.Input != nil {
		t.Errorf("what is no JSON is %s", recs[2].Value)
	}

	vectors := filepath.Join(t.TempDir(), "v.ssm")
	must(t, append([]string{"replay", moons(t, "train.libsvm", 300, 0), "--model", vectors}, learn...)...)
	for _, more := range [][]string{{"--keep", "amount,,x"}, {"--headers", "content-type"}, {"--errors-topic", in}, {"--errors-topic", second}, {"--keep", "x", "--model", vectors}} {
		code, _, text := streamsvm(t.Context(), append(append(args, "--predictions-topic", second, "--brokers", strings.Join(c.brokers, ",")), more...)...)
		if code != int(cli.Usage) && code != int(cli.Config) || !strings.Contains(text, more[0]) {
			t.Errorf("%q: exit code %d, %s", more, code, text)
		}
	}
}
