package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
)

// last returns the last of several lines of standings.
func last(t *testing.T, out string) standings {
	t.Helper()
	return decode[standings](t, lastLine(out))
}

// TestCompareTopic: what a model has learned from is left out, and of the rest
// each model has the accuracy that predict has with it.
func TestCompareTopic(t *testing.T) {
	c := newCluster(t)
	topic, models := c.trained()
	c.run("model", "promote", "--model-topic", models, "--version", "1")
	c.run("train", "--topics", topic, "--model-topic", models, "--model-name", "second", "--checkpoint", t.TempDir(), "--until-end", "--learner", "online", "-q")
	held := kafkatest.Topic(t, c.brokers, 1, nil)
	for _, to := range []string{topic, held} {
		c.run("generate", "moons", "--count", "2000", "--skip", "20000", "--topic", to, "-q")
	}
	for _, bad := range []string{`{"x":[1,2]}`, `{"x":[1,2],"y":`} {
		kafkatest.Produce(t, c.brokers, stream.Record{Topic: topic, Value: []byte(bad)})
	}
	s := last(t, c.run("compare", "--model-topic", models, "--topics", topic, "--start", "earliest", "--until-end", "--json"))
	if s.Compared != 2000 || s.Learned != 3000 || s.Refused != 1 || s.Unlabelled != 1 || len(s.Models) != 3 {
		t.Fatalf("%+v", s)
	}
	for i, m := range s.Models {
		name, alias, _ := strings.Cut(m.Model, "@")
		_, _, text := streamsvm(t.Context(), "predict", "--model-topic", models, "--model-name", name, "--alias", alias, "--topics", held, "--predictions-topic", c.name(), "--until-end", "--brokers", strings.Join(c.brokers, ","))
		if want := fmt.Sprintf("accuracy %.2f %%", 100*(1-float64(m.Loss))); !strings.Contains(text, want) {
			t.Errorf("%s has %s, predict says %s", m.Model, want, text)
		}
		if i > 0 && (m.Loss < s.Models[i-1].Loss || m.Rank < s.Models[i-1].Rank || m.Behind == nil || float64(m.Behind[0]) > float64(m.Loss-s.Models[0].Loss) || m.Behind[1] < m.Loss-s.Models[0].Loss) {
			t.Errorf("%+v comes after %+v", m, s.Models[i-1])
		}
		if i == 0 && (m.Rank != 1 || m.Behind != nil) || m.Versions != 1 || (m.Version == 1) != (m.Model != "model") {
			t.Errorf("%+v", m)
		}
	}
	if worst := s.Models[2]; worst.Model != "second" || worst.Rank != 3 {
		t.Errorf("a linear model is not known to be the worst on moons: %+v", s)
	}
	table := c.run("compare", "--model-topic", models, "--topics", topic, "--start", "earliest", "--max-records", "500", "--model-name", "second,model@champion")
	if !strings.Contains(table, "  500 records compared, 3000 a model had learned from\n") || strings.Count(table, "rank") != 1 {
		t.Errorf("%s", table)
	}
}

// TestCompareFollows: a version that is published while models are compared is
// taken into use, and a signal ends it with what is known.
func TestCompareFollows(t *testing.T) {
	c := newCluster(t)
	_, models := c.trained()
	c.run("model", "promote", "--model-topic", models, "--version", "1")
	held := kafkatest.Topic(t, c.brokers, 1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs buffer
	ended := make(chan int, 1)
	go func() {
		ended <- program().Main(ctx, []string{
			"compare", "--model-topic", models, "--topics", held, "--start", "earliest", "--json", "--report-every", "1ns", "--brokers", strings.Join(c.brokers, ","),
		}, cli.Stdio{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(string) (string, bool) { return "", false }})
	}()
	until := func(n uint64) standings {
		t.Helper()
		for range 600 {
			if text := out.String(); strings.HasSuffix(text, "\n") {
				if s := last(t, text); s.Compared >= n {
					return s
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatalf("%d records have not been compared\n%s%s", n, out.String(), errs.String())
		return standings{}
	}
	c.run("generate", "moons", "--count", "300", "--skip", "20000", "--topic", held, "-q")
	first := until(300)
	c.run("model", "promote", "--model-topic", models, "--version", "2")
	for skip := 20300; ; skip += 100 { // it hears of the promotion in its own time
		c.run("generate", "moons", "--count", "100", "--skip", fmt.Sprint(skip), "--topic", held, "-q")
		s := until(uint64(skip - 20000 + 100))
		if m := find(t, s, "model@champion"); m.Version == 2 && m.Versions == 2 {
			break
		}
	}
	if m := find(t, first, "model@champion"); m.Version != 1 || m.Versions != 1 {
		t.Errorf("before the promotion: %+v", m)
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	if s := last(t, out.String()); s.Compared < 400 {
		t.Errorf("the last line: %+v", s)
	}
}

func find(t *testing.T, s standings, name string) standing {
	t.Helper()
	for _, m := range s.Models {
		if m.Model == name {
			return m
		}
	}
	t.Fatalf("no %s in %+v", name, s)
	return standing{}
}

func TestCompareTopicRegression(t *testing.T) {
	c := newCluster(t)
	topic, models, held := kafkatest.Topic(t, c.brokers, 1, nil), kafkatest.Topic(t, c.brokers, 1, nil), kafkatest.Topic(t, c.brokers, 1, nil)
	c.run("generate", "friedman", "--count", "3000", "--topic", topic, "-q")
	for _, name := range []string{"a", "b"} {
		learner := map[string]string{"a": "ridge", "b": "online"}[name]
		c.run("train", "--task", "regress", "--topics", topic, "--model-topic", models, "--model-name", name, "--learner", learner, "--checkpoint", t.TempDir(), "--until-end", "-q")
	}
	c.run("generate", "friedman", "--count", "3000", "--skip", "50000", "--topic", held, "-q")
	s := last(t, c.run("compare", "--model-topic", models, "--topics", held, "--start", "earliest", "--until-end", "--json"))
	if s.Compared != 3000 || s.Task != "regress" || len(s.Models) != 2 || !(s.Models[0].Loss > 0) || s.Models[1].Behind == nil {
		t.Errorf("%+v", s)
	}
	if m := s.Models; !(m[1].Behind[0] <= m[1].Loss-m[0].Loss && m[1].Loss-m[0].Loss <= m[1].Behind[1]) {
		t.Errorf("%+v", s)
	}
}

func TestCompareTopicRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--topics a":                                               "--model-topic: no topic is given",
		"--topics a --model-topic a":                               "a holds the models",
		"--topics a --model-topic m --model-name x":                "one model cannot be compared",
		"--topics a --model-topic m --model-name x,x":              "x is there twice",
		"--topics a --model-topic m --model-name x,y/z":            "--model-name",
		"--topics a --model-topic m --window 0":                    "--window",
		"--topics a --model-topic m --report-every -1s":            "is negative",
		"--model-topic m":                                          "--topics: no topic is given",
		"--topics a --model-topic m --start yesterday":             "--start",
		"--topics a --model-topic m --model-name x,y --codec jsno": "--codec",
	} {
		if code, _, errText := streamsvm(t.Context(), append([]string{"compare"}, strings.Fields(args)...)...); code != int(cli.Usage) || !strings.Contains(errText, want) {
			t.Errorf("%s: exit code %d, %s", args, code, errText)
		}
	}
}
