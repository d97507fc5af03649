package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

// TestTrainPredictions kills a trainer that predicts, and starts it again, until it has
// read everything: each record is answered once, in order, as predict answers and with
// what a replay of the recording predicts before it learns.
func TestTrainPredictions(t *testing.T) {
	const n = 4000
	c := newCluster(t)
	topic, models, state, answers := kafkatest.Topic(t, c.brokers, 1, nil), c.name(), c.name(), c.name()
	c.run("generate", "moons", "--count", fmt.Sprint(n), "--topic", topic, "-q")
	kafkatest.Produce(t, c.brokers, stream.Record{
		Topic: topic, Key: []byte("k"), Value: []byte("no example"),
		Headers: []stream.Header{{Key: "traceparent", Value: []byte("00-1")}, {Key: "other", Value: []byte("1")}},
	})
	recording := filepath.Join(t.TempDir(), "run.ssr")
	learn := []string{"--learner", "adaptive", "--tune=off", "--warmup", "200", "--tolerance", "data", "-q"}
	args := slices.Concat([]string{"train", "--brokers", strings.Join(c.brokers, ","), "--topics", topic, "--until-end", "--model-topic", models, "--checkpoint", "kafka://" + state,
		"--checkpoint-interval", "0", "--checkpoint-every", "150", "--predictions-topic", answers, "--record", recording, "--rate-limit", "2500"}, learn)
	if _, out, errText := streamsvm(t.Context(), append([]string{"doctor"}, args[1:len(args)-1]...)...); !strings.Contains(out, "topic "+answers+": it does not exist and will be created") {
		t.Errorf("doctor:\n%s%s", out, errText)
	}
	for life := range 3 {
		d := startDiskless(t, args...)
		if life < 2 && !d.until(t, 2) {
			t.Fatalf("life %d ended before it was killed", life)
		}
		if life == 2 {
			<-d.done
			if code := d.cmd.ProcessState.ExitCode(); code != 0 {
				t.Fatalf("exit code %d", code)
			}
		}
		d.kill()
	}

	file := filepath.Join(t.TempDir(), "scores.csv")
	must(t, slices.Concat([]string{"replay", recording, "--scores", file}, learn)...)
	text := read(t, file)
	scored, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	scored = scored[1:]
	recs := kafkatest.ReadAll(t, c.brokers, answers)
	if len(recs) != n+1 || len(scored) < n/2 {
		t.Fatalf("%d answers to %d records, %d predictions scored", len(recs), n+1, len(scored))
	}
	var version, warm uint64
	for i, r := range recs {
		var a struct {
			Topic     string
			Offset    int64
			Decision  float64
			P         *float64 `json:"probability"`
			Label, Y  float64
			Model     string
			Version   uint64
			Error     string
			Partition *int32
		}
		if err := json.Unmarshal(r.Value, &a); err != nil {
			t.Fatalf("%s: %v", r.Value, err)
		}
		if a.Topic != topic || a.Offset != int64(i) || a.Partition == nil || a.Version < version || (a.Model == "model") != (a.Version > 0) {
			t.Fatalf("answer %d is %s", i, r.Value)
		}
		version = a.Version
		switch {
		case i == n:
			if !strings.Contains(a.Error, "decode") || string(r.Key) != "k" || len(r.Headers) != 2 || r.Headers[1].Key != "traceparent" {
				t.Errorf("the answer to a record that cannot be used is %s, key %s, headers %v", r.Value, r.Key, r.Headers)
			}
		case a.Error != "":
			if warm++; !strings.Contains(a.Error, "warming up") {
				t.Fatalf("answer %d is %s", i, r.Value)
			}
		default:
			want := scored[uint64(i)-warm]
			f, _ := strconv.ParseFloat(want[0], 64)
			y, _ := strconv.ParseFloat(want[2], 64)
			if a.Decision != f || a.Y != y || (a.Decision >= 0) != (a.Label > 0) {
				t.Fatalf("answer %d is %s, the replay predicts %v", i, r.Value, want)
			}
			p, err := strconv.ParseFloat(want[1], 64)
			if known := err == nil; known != (a.P != nil) || known && math.Abs(*a.P-p) > 1e-9 {
				t.Fatalf("answer %d is %s, the replay predicts %v", i, r.Value, want)
			}
		}
	}
	if version == 0 || warm != 200 {
		t.Errorf("the last version is %d, %d answers in the warm-up", version, warm)
	}
	code, _, errText := streamsvm(t.Context(), "train", "--brokers", c.brokers[0], "--topics", topic, "--checkpoint", t.TempDir(), "--predictions-topic", answers)
	if code != int(cli.Usage) || !strings.Contains(errText, "it needs --checkpoint kafka://TOPIC") {
		t.Errorf("without checkpoints in a topic: exit code %d\n%s", code, errText)
	}
}
