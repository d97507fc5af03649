package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsvm/streamsvm/algos"
	"github.com/streamsvm/streamsvm/algos/tsgs3vm"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/deadletter"
	"github.com/streamsvm/streamsvm/internal/normal"
	"github.com/streamsvm/streamsvm/internal/pipeline"
	"github.com/streamsvm/streamsvm/internal/reach"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// sumTrial has the records of a topic of 8 partitions summed by different numbers of
// processes, through kills, and returns the models, each in a file.
type sumTrial struct {
	brokers []string
	in      string
	records int
	batch   int
	kills   int
	timeout time.Duration // of sessions
	pause   time.Duration // between kills
	set     []string      // options of the learner
	// middle happens in the middle of four processes; may be nil.
	middle func(sums string)
}

// record returns the value of record k, which with some is no example.
func (s *sumTrial) record(k int) string {
	r := rand.New(rand.NewPCG(1, uint64(k)))
	x, y := r.NormFloat64(), r.NormFloat64()
	switch {
	case k%97 == 50:
		return "1 1:x"
	case k%101 == 60:
		return fmt.Sprintf("? 1:%.4f 2:%.4f", x, y)
	}
	label := 0
	if x*y > 0.2 {
		label = 1
	}
	if x > 1 {
		label = 2
	}
	return fmt.Sprintf("%d 1:%.4f 2:%.4f", label, x, y)
}

// write writes the records, in transactions, some of which are undone first.
func (s *sumTrial) write(t *testing.T) {
	c := kafkatest.Client(t, s.brokers, kgo.TransactionalID("writer of "+s.in), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	at := time.UnixMilli(1_700_000_000_000)
	transaction := func(from, n int, how kgo.TransactionEndTry) {
		recs := make([]*kgo.Record, n)
		for i := range recs {
			k := from + i
			recs[i] = &kgo.Record{Topic: s.in, Partition: int32(k % 8), Value: []byte(s.record(k)), Timestamp: at.Add(time.Duration(k) * time.Millisecond)}
		}
		err := c.BeginTransaction()
		if err == nil {
			err = c.ProduceSync(t.Context(), recs...).FirstErr()
		}
		for _, r := range recs {
			if err == nil {
				err = reach.Settle(t.Context(), c, r.Topic, r.Partition)
			}
		}
		if err == nil {
			err = c.EndTransaction(t.Context(), how)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	n := s.records / 12
	for from := 0; from < s.records; from += n {
		if from%(3*n) == 0 {
			transaction(from, 100, kgo.TryAbort)
		}
		transaction(from, min(n, s.records-from), kgo.TryCommit)
	}
}

// model returns the model that so many processes make, which are killed, of more than
// one, and one of which sleeps, of more than two.
func (s *sumTrial) model(t *testing.T, processes int) []byte {
	t.Helper()
	models, sums, bad := kafkatest.Name(t, s.brokers), kafkatest.Name(t, s.brokers), kafkatest.Name(t, s.brokers)
	at := strings.Join(s.brokers, ",")
	f := newFleet(t, "sum", "--topics", s.in, "--model-topic", models, "--sums-topic", sums, "--errors-topic", bad, "--group", sums, "--brokers", at,
		"--batch", fmt.Sprint(s.batch), "--commit-interval", "50ms")
	f.scale(processes)
	stop, done := make(chan struct{}), sync.WaitGroup{}
	killed := 0
	done.Go(func() {
		for k := 0; processes > 1 && k < s.kills; k++ {
			select {
			case <-stop:
				return
			case <-time.After(s.pause):
			}
			if k == 2 && processes > 2 { // one sleeps until others have its partitions
				f.signal(1, syscall.SIGSTOP)
				time.Sleep(s.timeout + s.timeout/2)
				f.signal(1, syscall.SIGCONT)
				continue
			}
			if k == s.kills/2 && processes == 4 && s.middle != nil {
				s.middle(sums)
			}
			f.signal(k%processes, syscall.SIGKILL)
			killed++
		}
	})
	start := time.Now()
	solve := []string{"solve", "--topics", s.in, "--codec", "libsvm", "--labels", "0,1,2", "--model-topic", models, "--sums-topic", sums, "--brokers", at, "--until-end",
		"--interval", "200ms", "--warmup", "500", "--tune", "off"}
	for _, o := range s.set {
		solve = append(solve, "--set", o)
	}
	out := must(t, solve...)
	close(stop)
	done.Wait()
	f.scale(0)
	dir := t.TempDir()
	must(t, "model", "follow", "--model-topic", models, "--brokers", at, "--until", "1", "--save", dir)
	data, err := os.ReadFile(filepath.Join(dir, "model.ssm"))
	if err != nil {
		t.Fatal(err)
	}
	s.letters(t, bad)
	t.Logf("%d processes, %d killed, exit codes %v, %s s: %s", processes, killed, f.codes, sec(time.Since(start)), out)
	return data
}

// letters sees to it that the topic has one dead letter about each record that is
// no example, and no other.
func (s *sumTrial) letters(t *testing.T, topic string) {
	t.Helper()
	said := map[deadletter.Origin]int{}
	for _, r := range kafkatest.ReadAll(t, s.brokers, topic, kgo.FetchIsolationLevel(kgo.ReadCommitted())) {
		l, err := deadletter.Parse(&r)
		if err != nil {
			t.Fatal(err)
		}
		if said[l.Origin()]++; string(r.Value) != "1 1:x" || l.Stage != string(stream.StageDecode) || !strings.Contains(l.Message, "x") {
			t.Errorf("letter %+v about %q", l, r.Value)
		}
	}
	want := 0
	for k := range s.records {
		if k%97 == 50 {
			want++
		}
	}
	total := 0
	for _, n := range said {
		total += n
	}
	if len(said) != want || total != want {
		t.Errorf("%d dead letters about %d records, want %d", total, len(said), want)
	}
}

// want returns the model of one learner a partition, whose sums are added in the
// order of the partitions, with the plan of got.
func (s *sumTrial) want(t *testing.T, got []byte) []byte {
	t.Helper()
	pipe, err := pipeline.Decode(got)
	if err != nil {
		t.Fatal(err)
	}
	type adder interface {
		algos.Learner
		Fix(algos.Model) error
		Sum([]*stream.Example)
		Sums() *normal.Sums
		Restore(*normal.Sums, int) error
	}
	learner := func() adder {
		l, err := tsgs3vm.LSSVM.New(algos.Env{Seed: 1, Classes: 3}, pipe.Options)
		if err == nil {
			err = l.(adder).Fix(pipe.Model)
		}
		if err != nil {
			t.Fatal(err)
		}
		return l.(adder)
	}
	dec, err := codec.New("libsvm", codec.Options{Labels: "0,1,2"})
	if err != nil {
		t.Fatal(err)
	}
	total, summed := learner(), 0
	for p := range 8 {
		part := learner()
		for k := p; k < s.records; k += 8 {
			x := new(stream.Example)
			if dec.Decode([]byte(s.record(k)), x) != nil || !x.Labelled {
				continue
			}
			x.X = pipe.Transform.Apply(x.X)
			part.Sum([]*stream.Example{x})
			summed++
		}
		if err := total.Sums().Merge(part.Sums()); err != nil {
			t.Fatal(err)
		}
	}
	if err := total.Restore(total.Sums(), 2); err != nil {
		t.Fatal(err)
	}
	if _, err := total.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if summed < s.records*9/10 {
		t.Errorf("only %d of %d records could be used", summed, s.records)
	}
	pipe.Model = total.Model()
	data, err := pipe.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (s *sumTrial) run(t *testing.T, processes ...int) {
	t.Helper()
	s.write(t)
	s.compare(t, processes...)
}

// compare has different numbers of processes make the model.
func (s *sumTrial) compare(t *testing.T, processes ...int) {
	t.Helper()
	var first []byte
	for _, n := range processes {
		got := s.model(t, n)
		if first == nil {
			first = got
			if !bytes.Equal(got, s.want(t, got)) {
				t.Error("the model is not that of a learner a partition in one process")
			}
		}
		if !bytes.Equal(got, first) {
			t.Errorf("the model of %d processes is not that of %d, bit for bit", n, processes[0])
		}
	}
}

// TestSumGroup: the model is the same, to the bit, whatever number of processes
// there are, however often they are killed.
func TestSumGroup(t *testing.T) {
	c := newCluster(t)
	in := c.name()
	kafkatest.Create(t, c.brokers, in, 8, nil)
	s := &sumTrial{brokers: c.brokers, in: in, records: 12000, batch: 40, kills: 8, pause: 80 * time.Millisecond, timeout: 1500 * time.Millisecond,
		set: []string{"features=64", "gamma=1"}}
	s.run(t, 1, 2, 4, 8)
	s.set = []string{"kernel=linear"}
	s.compare(t, 4)
}

// TestSumRefuses: what does not go together is refused, with words for it.
func TestSumRefuses(t *testing.T) {
	c := newCluster(t)
	at := strings.Join(c.brokers, ",")
	in, models, sums, narrow := c.name(), c.name(), c.name(), c.name()
	kafkatest.Create(t, c.brokers, in, 8, nil)
	kafkatest.Create(t, c.brokers, narrow, 3, nil)
	(&sumTrial{brokers: c.brokers, in: in, records: 1200}).write(t)
	must(t, append([]string{"train", "--topics", in, "--codec", "libsvm", "--until-end", "--tolerance", "data", "--model-topic", models, "--checkpoint", t.TempDir(), "--brokers", at}, learn...)...)
	solve := []string{"solve", "--brokers", at, "--topics", in, "--codec", "libsvm", "--until-end"}
	sum := []string{"sum", "--brokers", at, "--topics", in, "--group", in}
	for _, test := range []struct {
		args []string
		code cli.Code
		says string
	}{
		{append(solve, "--sums-topic", narrow, "--model-topic", c.name()), cli.Unavailable, "has 3: the numbers must be equal"},
		{append(solve, "--sums-topic", sums, "--model-topic", models), cli.Config, "is not of the sums in"},
		{append(solve, "--sums-topic", in, "--model-topic", models), cli.Usage, "holds something else"},
		{append(solve, "--sums-topic", sums), cli.Usage, "no topic is given"},
		{append(solve, "--sums-topic", sums, "--model-topic", models, "--set", "halflife=3"), cli.Usage, "halflife"},
		{append(sum, "--sums-topic", sums, "--model-topic", models), cli.Config, "does not learn by sums: lssvm does"},
		{append(sum, "--sums-topic", sums, "--model-topic", c.name(), "--topic-wait", "0s"), cli.Unavailable, "--topic-wait"},
	} {
		if code, _, said := streamsvm(t.Context(), test.args...); code != int(test.code) || !strings.Contains(said, test.says) {
			t.Errorf("%q: exit code %d, want %d, and %q in: %s", test.args, code, test.code, test.says, said)
		}
	}
}

// TestSecureSum: sum and solve need what acls prints, and the topic of sums.
func TestSecureSum(t *testing.T) {
	eachCluster(t, func(t *testing.T, s *kafkatest.Secure) {
		base := fmt.Sprintf("secure-sum-%d", time.Now().UnixNano())
		in, sums, models := base+"-in", base+"-sums", base+"-models"
		s.CreateTopic("SASL", in)
		login := []string{"--brokers", s.Listeners["SASL"], "--sasl-mechanism", "plain", "--sasl-username", "trainer", "--sasl-password-file", s.PasswordFile}
		run := func(args ...string) string { return must(t, append(args, login...)...) }
		produce := run("config", "acls", "predict", "--", "--topics", in, "--predictions-topic", in)
		s.Allow("SASL", produce)
		run("copy", moons(t, "a.libsvm", 600, 0), "--topic", in, "-q", "--codec", "libsvm")
		s.Revoke("SASL", produce)

		topics := []string{"--topics", in, "--sums-topic", sums, "--model-topic", models}
		solve := append(append([]string{"solve", "--codec", "libsvm", "--until-end", "--interval", "200ms", "--warmup", "300", "--tune=off", "--set", "features=64", "-q"}, topics...), login...)
		sum := append(append([]string{"sum", "--group", base, "--member", "0", "-q"}, topics...), login...)
		refused := func(args []string, grants string) {
			t.Helper()
			lines := strings.SplitAfter(grants, "\n")
			missing := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, " --topic "+sums) })
			s.Allow("SASL", strings.Join(slices.Delete(slices.Clone(lines), missing, missing+1), ""))
			if code, _, text := streamsvm(t.Context(), args...); code != int(cli.Unavailable) || !strings.Contains(strings.ToLower(text), "authorization") {
				t.Errorf("%s without the topic of sums: exit code %d: %s", args[0], code, text)
			}
			s.Revoke("SASL", grants)
		}
		toSolve := run(append([]string{"config", "acls", "solve", "--"}, topics...)...)
		toSum := run(append([]string{"config", "acls", "sum", "--", "--group", base}, topics...)...)
		refused(solve, toSolve)
		s.Allow("SASL", toSolve+toSum)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan string, 1)
		go func() {
			code, _, text := streamsvm(ctx, sum...)
			done <- fmt.Sprintf("exit code %d%s", code, text)
		}()
		if code, _, text := streamsvm(t.Context(), solve...); code != 0 {
			t.Errorf("solve: exit code %d: %s", code, text)
		}
		cancel()
		if said := <-done; said != "exit code 0" {
			t.Errorf("sum: %s", said)
		}
		s.Revoke("SASL", toSum)
		refused(sum, toSum)
	})
}
