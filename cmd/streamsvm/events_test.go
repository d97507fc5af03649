package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
)

// eventTopic is a topic as people have it.
type eventTopic struct {
	what string
	// value is a record of an amount, a country and an hour, with a label, or
	// without one: as somebody writes it who asks for a prediction.
	value func(e *purchase, labelled bool) string
	args  []string // of train
	csv   bool
	// label is what predict answers.
	label func(e *purchase) string
	least float64 // accuracy
	first string  // line, of a file
}

// purchase is what the topics tell about: whether class is 1 can be told from
// amount and country.
type purchase struct {
	i       int
	amount  float64
	country string
	hour    int
	class   int // 0 to 9
	bad     bool
}

func purchases(n int) (list []*purchase) {
	rng := rand.New(rand.NewSource(7))
	for i := range n {
		p := &purchase{i: i, amount: float64(int(rng.ExpFloat64()*5000)) / 100, country: []string{"DE", "FR", "US", "BR", "CN"}[rng.Intn(5)], hour: rng.Intn(24)}
		p.bad = (p.amount > 40) != (p.country == "BR" || p.country == "CN")
		p.class = min(int(p.amount/12), 4)
		if p.country == "BR" || p.country == "CN" {
			p.class += 5
		}
		list = append(list, p)
	}
	return list
}

// sign is −1 or 1, by what can be told from numbers alone.
func (p *purchase) sign() int { return 2*p.zeroOne() - 1 }

func (p *purchase) zeroOne() int {
	if p.amount > 40 != (p.hour < 8) {
		return 1
	}
	return 0
}

// object returns an object of the fields, and of the label.
func object(labelled bool, label, format string, args ...any) string {
	s := fmt.Sprintf(format, args...)
	if labelled {
		s += label
	}
	return s + "}"
}

func eventTopics() []eventTopic {
	str := func(v any) string { return fmt.Sprint(v) }
	return []eventTopic{
		{what: "flat, named, with an id", value: func(e *purchase, l bool) string {
			return object(l, fmt.Sprintf(`,"is_fraud":%v`, e.bad), `{"user_id":"u%d","amount":%v,"country":%q,"hour":%d`, e.i, e.amount, e.country, e.hour)
		}, args: []string{"--label", "is_fraud"}, label: func(e *purchase) string { return str(e.bad) }, least: .9},
		{what: "named fields in x, one a category", value: func(e *purchase, l bool) string {
			return object(l, fmt.Sprintf(`,"y":%d`, map[bool]int{false: -1, true: 1}[e.bad]), `{"x":{"amount":%v,"country":%q}`, e.amount, e.country)
		}, label: func(e *purchase) string { return str(map[bool]int{false: -1, true: 1}[e.bad]) }, least: .9},
		{what: "named numbers in x", value: func(e *purchase, l bool) string {
			return object(l, fmt.Sprintf(`,"y":%d`, e.sign()), `{"x":{"amount":%v,"hour":%d}`, e.amount, e.hour)
		}, label: func(e *purchase) string { return str(e.sign()) }, least: .9},
		{what: "features and label", value: func(e *purchase, l bool) string {
			return object(l, fmt.Sprintf(`,"label":%d`, e.sign()), `{"features":[%v,%d]`, e.amount, e.hour)
		}, label: func(e *purchase) string { return str(e.sign()) }, least: .9},
		{what: "labels 0 and 1", value: func(e *purchase, l bool) string {
			return object(l, fmt.Sprintf(`,"y":%d`, e.zeroOne()), `{"x":[%v,%d]`, e.amount, e.hour)
		}, label: func(e *purchase) string { return str(e.zeroOne()) }, least: .9},
		{what: "labels true and false", value: func(e *purchase, l bool) string {
			return object(l, fmt.Sprintf(`,"y":%v`, e.sign() > 0), `{"x":[%v,%d]`, e.amount, e.hour)
		}, label: func(e *purchase) string { return str(e.sign() > 0) }, least: .9},
		{what: "labels that are words", value: func(e *purchase, l bool) string {
			return object(l, fmt.Sprintf(`,"y":%q`, []string{"ham", "spam"}[e.zeroOne()]), `{"x":[%v,%d]`, e.amount, e.hour)
		}, label: func(e *purchase) string { return []string{"ham", "spam"}[e.zeroOne()] }, least: .9},
		{what: "ten classes", value: func(e *purchase, l bool) string {
			return object(l, fmt.Sprintf(`,"y":%d`, e.class), `{"x":[%v,%d]`, e.amount, map[bool]int{true: 1}[e.class > 4])
		}, label: func(e *purchase) string { return str(e.class) }, least: .85},
		{what: "three classes", value: func(e *purchase, l bool) string {
			return object(l, fmt.Sprintf(`,"y":%d`, 1+e.class%3), `{"x":[%v,%d]`, e.amount, e.hour)
		}, label: func(e *purchase) string { return str(1 + e.class%3) }, least: .45},
		{what: "missing values", value: func(e *purchase, l bool) string {
			amount := str(e.amount)
			if e.i%9 == 0 {
				amount = "null"
			}
			return object(l, fmt.Sprintf(`,"y":%d`, e.sign()), `{"x":[%s,%d]`, amount, e.hour)
		}, label: func(e *purchase) string { return str(e.sign()) }, least: .85},
		{what: "flat numbers", value: func(e *purchase, l bool) string {
			return object(l, fmt.Sprintf(`,"y":%d`, e.sign()), `{"x1":%v,"x2":%d`, e.amount, e.hour)
		}, label: func(e *purchase) string { return str(e.sign()) }, least: .9},
		{what: "csv with a header, words, labels true and false", value: func(e *purchase, l bool) string {
			s := fmt.Sprintf("%v,%s,%d", e.amount, e.country, e.hour)
			if l {
				s += fmt.Sprintf(",%v", e.bad)
			}
			return s
		}, csv: true, first: "amount,country,hour,fraud", args: []string{"--label", "fraud"}, label: func(e *purchase) string { return str(e.bad) }, least: .9},
	}
}

// TestEventTopics: topics as people have them, written by a client that is not
// ours, train a model that predicts the events as they are.
func TestEventTopics(t *testing.T) {
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Skip("kcat, which writes the records, is not installed")
	}
	brokers := kafkatest.Brokers(t)
	const n = 1000
	all := purchases(n + 200)
	for _, et := range eventTopics() {
		t.Run(et.what, func(t *testing.T) {
			t.Parallel()
			et.check(t, brokers, all[:n], all[n:])
		})
	}
}

func (et *eventTopic) check(t *testing.T, brokers []string, train, test []*purchase) {
	dir, broker := t.TempDir(), strings.Join(brokers, ",")
	var lines []string
	for _, e := range train {
		lines = append(lines, et.value(e, true))
	}
	var asked []string
	for _, e := range test {
		asked = append(asked, et.value(e, false))
	}
	file := filepath.Join(dir, "records")
	model := filepath.Join(dir, "model"+ext)
	var args []string
	if et.csv { // a file: topics have no header
		file += ".csv"
		lines, asked = slices.Insert(lines, 0, et.first), slices.Insert(asked, 0, "amount,country,hour")
		args = append([]string{"replay", file, "--model", model, "-q"}, et.args...)
	}
	write(t, file, strings.Join(lines, "\n")+"\n")
	from := []string{"--model", model}
	if !et.csv {
		topic := kafkatest.Topic(t, brokers, 1, nil)
		if out, err := exec.CommandContext(t.Context(), "kcat", "-P", "-b", broker, "-t", topic, "-p", "0", "-l", file).CombinedOutput(); err != nil {
			t.Fatalf("kcat: %v\n%s", err, out)
		}
		models := kafkatest.Name(t, brokers)
		args = slices.Concat([]string{"train", "--topics", topic, "--until-end", "--model-topic", models, "--checkpoint", filepath.Join(dir, "state"), "-q", "--brokers", broker}, et.args)
		from = []string{"--brokers", broker, "--model-topic", models}
	}
	must(t, args...)
	ask := filepath.Join(dir, "asked"+filepath.Ext(file))
	if filepath.Ext(ask) == "" {
		ask += ".jsonl"
	}
	write(t, ask, strings.Join(asked, "\n")+"\n")
	answers := strings.Split(strings.TrimSpace(must(t, slices.Concat([]string{"predict", ask}, from)...)), "\n")
	if len(answers) != len(test) {
		t.Fatalf("%d answers for %d events", len(answers), len(test))
	}
	right := 0
	for i, line := range answers {
		var a struct{ Label any }
		if err := json.Unmarshal([]byte(line), &a); err != nil || a.Label == nil {
			t.Fatalf("%s: %v", line, err)
		}
		if fmt.Sprint(a.Label) == et.label(test[i]) {
			right++
		}
	}
	if accuracy := float64(right) / float64(len(test)); accuracy < et.least {
		t.Errorf("%.3f of the labels are right, want %v", accuracy, et.least)
	}
}
