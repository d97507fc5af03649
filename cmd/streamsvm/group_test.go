package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/contrib/inspect"
	"github.com/streamsvm/streamsvm/contrib/scale/siftplan"
	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/sift"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fleet is the processes of a group, each of which is started again when it ends
// in a way that says so.
type fleet struct {
	t    *testing.T
	args []string // of each

	mu    sync.Mutex
	procs map[int]*exec.Cmd
	wg    sync.WaitGroup
	codes map[int]int // how often which exit code came
}

func newFleet(t *testing.T, args ...string) *fleet {
	f := &fleet{t: t, args: args, procs: map[int]*exec.Cmd{}, codes: map[int]int{}}
	t.Cleanup(func() { f.scale(0) })
	return f
}

// scale makes n members run, those below n.
func (f *fleet) scale(n int) {
	f.t.Helper()
	for i := range 16 {
		f.mu.Lock()
		p := f.procs[i]
		if i >= n {
			delete(f.procs, i)
		}
		f.mu.Unlock()
		switch {
		case p == nil && i < n:
			f.start(i)
		case p != nil && i >= n:
			_ = p.Process.Signal(syscall.SIGTERM)
		}
	}
	if n == 0 {
		f.wg.Wait()
	}
}

func (f *fleet) start(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.startLocked(i)
}

func (f *fleet) startLocked(i int) {
	p := process(f.t, f.args...)
	said := &bytes.Buffer{}
	p.Stderr = said
	if testing.Verbose() {
		p.Stderr = os.Stderr
	}
	if err := p.Start(); err != nil {
		f.t.Error(err)
		return
	}
	f.procs[i] = p
	f.wg.Go(func() {
		_ = p.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		code := p.ProcessState.ExitCode()
		f.codes[code]++
		if code == int(cli.Fenced) {
			f.t.Logf("member %d has ended as one that was replaced:\n%s", i, said.String())
		}
		if f.procs[i] == p { // nobody has ended it
			f.startLocked(i)
		}
	})
}

func (f *fleet) signal(i int, s syscall.Signal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.procs[i]; p != nil {
		_ = p.Process.Signal(s)
	}
}

// outputs is what committed readers of a topic see: each record of a source
// once, those of a partition in their order.
type outputs struct {
	mu         sync.Mutex
	next       map[int32]int64 // by source partition
	seen       map[stream.Partition]map[int64]bool
	count      int
	twice      int
	disordered int
}

// follow reads the topic until the test ends. source says where a record comes
// from.
func follow(t *testing.T, brokers []string, topic string, source func(*kgo.Record) (int32, int64)) *outputs {
	o := &outputs{next: map[int32]int64{}, seen: map[stream.Partition]map[int64]bool{}}
	c := kafkatest.Client(t, brokers, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			c.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				id, at := source(r)
				o.mu.Lock()
				defer o.mu.Unlock()
				p := stream.Partition{ID: id}
				if o.seen[p] == nil {
					o.seen[p] = map[int64]bool{}
				}
				if o.seen[p][at] {
					o.twice++
				} else if at < o.next[id] {
					o.disordered++
				}
				o.seen[p][at], o.next[id] = true, at+1
				o.count++
			})
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return o
}

func (o *outputs) distinct() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.distinctLocked()
}

func (o *outputs) distinctLocked() (n int) {
	for _, m := range o.seen {
		n += len(m)
	}
	return n
}

// until waits until there are outputs of n records.
func (o *outputs) until(t *testing.T, n int) {
	t.Helper()
	for last, since := -1, time.Now(); ; time.Sleep(20 * time.Millisecond) {
		got := o.distinct()
		if got >= n {
			return
		}
		if got != last {
			last, since = got, time.Now()
		}
		if time.Since(since) > 3*time.Minute {
			t.Fatalf("of %d records only %d have outputs, and no more come", n, got)
		}
	}
}

// predictedFrom returns where the record of a prediction is.
func predictedFrom(t *testing.T) func(r *kgo.Record) (int32, int64) {
	return func(r *kgo.Record) (int32, int64) {
		var p struct {
			Partition int32
			Offset    int64
			Error     string
		}
		if err := json.Unmarshal(r.Value, &p); err != nil || p.Error != "" {
			t.Errorf("prediction %s: %v", r.Value, err)
		}
		if r.Partition != p.Partition {
			t.Errorf("prediction %s in partition %d", r.Value, r.Partition)
		}
		return p.Partition, p.Offset
	}
}

// groupModel returns the path of a model of two numbers.
func groupModel(t *testing.T) string {
	dir := t.TempDir()
	model := filepath.Join(dir, "model.ssm")
	must(t, append([]string{"replay", moons(t, "train.libsvm", 600, 0), "--model", model}, learn...)...)
	return model
}

// groupRecord returns the value of record k.
func groupRecord(k int) []byte { return fmt.Appendf(nil, "%d 1:%d.5 2:-%d", 2*(k%2)-1, k%3, k%5) }

// disturbed is what a fleet goes through: records are written in parts, and
// something happens after each.
type disturbed struct {
	records, kills int
	workers, most  int             // processes that are killed, and at most
	timeout        time.Duration   // of sessions
	middle         func()          // in the middle; may be nil
	outputs        func(n int) int // of the first n records; nil: one for each
}

// run lets all of it happen to the fleet f, and waits for outputs of all
// records, of which there are so many for n records written.
func (d *disturbed) run(t *testing.T, brokers []string, topic string, f *fleet, o *outputs) {
	t.Helper()
	const partitions = 8
	c := kafkatest.Client(t, brokers)
	parts, written := d.kills+4, 0
	count := d.outputs
	if count == nil {
		count = func(n int) int { return n }
	}
	write := func() {
		n := d.records / parts
		if d.records-written < 2*n {
			n = d.records - written
		}
		recs := make([]stream.Record, n)
		for i := range recs {
			k := written + i
			recs[i] = stream.Record{Topic: topic, Partition: int32(k % partitions), Value: groupRecord(k)}
		}
		kafkatest.ProduceWith(t, c, recs...)
		written += n
	}
	further := func() { o.until(t, o.distinct()+min(100, count(written)-o.distinct())) }

	f.scale(1)
	write()
	further()
	f.scale(d.workers) // more of them
	for k := range d.kills {
		write()
		further()
		f.signal(k%d.workers, syscall.SIGKILL)
		if k == d.kills/2 && d.middle != nil {
			d.middle()
		}
	}
	write()
	further()
	f.scale(d.most)
	f.signal(1, syscall.SIGSTOP) // until others have its partitions
	write()
	further()
	time.Sleep(d.timeout + d.timeout/2)
	f.signal(1, syscall.SIGCONT)
	write()
	further()
	f.scale(2)
	for written < d.records {
		write()
	}
	for n := -1; n != count(d.records); o.until(t, n) { // the number may grow
		n = count(d.records)
	}
	f.scale(0)
	o.until(t, count(d.records))
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.twice > 0 || o.disordered > 0 {
		t.Errorf("%d records are there twice, %d out of order", o.twice, o.disordered)
	}
	if f.codes[int(cli.Fenced)] > 0 {
		t.Errorf("a process thought that another one had taken its place: exit codes %v", f.codes)
	}
	t.Logf("%d records, %d killed, one paused, 1 to %d to 2 processes: %d outputs, %d twice, %d missing, %d out of order; exit codes %v", d.records, d.kills, d.most, o.count, o.twice, count(d.records)-(o.count-o.twice), o.disordered, f.codes)
}

// TestPredictGroup: exactly one prediction a record, in order, whatever happens
// to those who make them and whoever shares the partitions out.
func TestPredictGroup(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"classic", "consumer"} {
		t.Run(protocol, func(t *testing.T) {
			if protocol == "consumer" && !kafkatest.Real() {
				t.Skip("set STREAMSVM_TEST_BROKERS: the embedded broker does not give a partition to anybody any more whose members have all been killed or paused")
			}
			c := newCluster(t)
			in, out := c.name(), c.name()
			kafkatest.Create(t, c.brokers, in, 8, nil)
			kafkatest.Create(t, c.brokers, out, 8, nil)
			f := newFleet(t, "predict", "--model", groupModel(t), "--topics", in, "--predictions-topic", out, "--group", in, "--brokers", strings.Join(c.brokers, ","),
				"--codec", "libsvm", "--group-protocol", protocol)
			d := &disturbed{records: 10000, workers: 4, most: 4, kills: 6, timeout: 1500 * time.Millisecond}
			if protocol == "consumer" {
				d.timeout = 3 * time.Second // the brokers', scripts/kafka.sh
			}
			if kafkatest.Real() {
				d.kills = 5
			}
			d.run(t, c.brokers, in, f, follow(t, c.brokers, out, predictedFrom(t)))
		})
	}
}

// siftTrial has records sifted by a fleet that goes through d, and compares what is
// forwarded with the model's predictions.
func siftTrial(t *testing.T, brokers []string, in, distilled string, d *disturbed, args ...string) {
	t.Helper()
	models, examples := kafkatest.Name(t, brokers), kafkatest.Topic(t, brokers, 1, nil)
	at, dir := strings.Join(brokers, ","), t.TempDir()
	must(t, "generate", "moons", "--count", "3000", "--topic", examples, "--codec", "libsvm", "--brokers", at, "-q")
	must(t, append([]string{"train", "--topics", examples, "--codec", "libsvm", "--until-end", "--model-topic", models, "--checkpoint", t.TempDir(), "--brokers", at}, learn...)...)
	must(t, "model", "follow", "--model-topic", models, "--brokers", at, "--until", "1", "--save", dir)
	s, err := predictor.Open(t.Context(), predictor.ScorerOptions{File: filepath.Join(dir, "model.ssm")})
	if err != nil {
		t.Fatal(err)
	}
	plan := siftplan.Plan{S: siftplan.DefaultBand}
	want, sums := map[sift.Source]sift.Header{}, []int{0} // of records forwarded
	for k := range d.records {
		p, err := s.Score(groupRecord(k))
		if err != nil {
			t.Fatal(err)
		}
		src := sift.Source{Partition: stream.Partition{Topic: in, ID: int32(k % 8)}, Offset: int64(k / 8)}
		h := sift.Header{P: plan.Probability(siftplan.Hinge, siftplan.Hinge.Margin(p.Score, p.Y), siftplan.DefaultLeast), Decision: p.Score}
		if sift.Forward(src, 0, h.P) {
			want[src] = h
		}
		sums = append(sums, len(want))
	}
	if len(want) == 0 || len(want) == d.records {
		t.Fatalf("%d of %d records are to be forwarded: there is no choice", len(want), d.records)
	}
	// Until a process has the model it forwards everything.
	var early atomic.Int64
	d.outputs = func(n int) int { return sums[n] + int(early.Load()) }
	headers := map[sift.Source]sift.Header{}
	forwarded := follow(t, brokers, distilled, func(r *kgo.Record) (int32, int64) {
		var rec stream.Record
		for _, h := range r.Headers {
			rec.Headers = append(rec.Headers, stream.Header{Key: h.Key, Value: h.Value})
		}
		h, ok, err := sift.Of(&rec)
		src, from, err2 := sift.SourceOf(&rec)
		if !ok || !from || err != nil || err2 != nil || r.Partition != src.Partition.ID {
			t.Errorf("headers %v in partition %d: %v %v", rec.Headers, r.Partition, err, err2)
		}
		if _, ok := want[src]; !ok && h.Version == 0 {
			early.Add(1)
		}
		headers[src] = h
		return src.Partition.ID, src.Offset
	})
	f := newFleet(t, append([]string{"sift", "--model-topic", models, "--topics", in, "--distilled-topic", distilled, "--group", in, "--brokers", at, "--codec", "libsvm"}, args...)...)
	d.run(t, brokers, in, f, forwarded)
	forwarded.mu.Lock()
	defer forwarded.mu.Unlock()
	for src, h := range headers {
		w, ok := want[src]
		switch {
		case h.Version == 0 && h.P == 1:
		case !ok || h.P != w.P || h.Decision != w.Decision:
			t.Fatalf("%v has header %+v, want %+v (%t)", src, h, w, ok)
		}
	}
	for src := range want {
		if _, ok := headers[src]; !ok {
			t.Fatalf("%v is missing", src)
		}
	}
	t.Logf("%d of %d records forwarded, %d of them before there was a model", len(headers), d.records, early.Load())
}

// TestSiftGroup: each record is forwarded or not, once, by its number and its
// probability, whatever happens to those who do it.
func TestSiftGroup(t *testing.T) {
	c := newCluster(t)
	in, distilled := c.name(), c.name()
	for _, name := range []string{in, distilled} {
		kafkatest.Create(t, c.brokers, name, 8, nil)
	}
	d := &disturbed{records: 10000, workers: 4, most: 4, kills: 6, timeout: 1500 * time.Millisecond}
	if kafkatest.Real() {
		d.kills = 3
	}
	siftTrial(t, c.brokers, in, distilled, d)
}

// TestSiftPartitions: a distilled topic of another number of partitions is
// refused.
func TestSiftPartitions(t *testing.T) {
	c := newCluster(t)
	in, distilled := c.name(), c.name()
	kafkatest.Create(t, c.brokers, in, 3, nil)
	kafkatest.Create(t, c.brokers, distilled, 2, nil)
	code, _, stderr := streamsvm(t.Context(), "sift", "--brokers", strings.Join(c.brokers, ","), "--topics", in, "--distilled-topic", distilled, "--group", in, "--model-topic", c.name(), "-q")
	if want := "has 3 partitions, the distilled topic " + distilled + " has 2"; code != int(cli.Unavailable) || !strings.Contains(stderr, want) {
		t.Errorf("exit code %d, %s; want %q", code, stderr, want)
	}
}

// TestSiftWithoutModel: until there is a model all records are forwarded as they
// are.
func TestSiftWithoutModel(t *testing.T) {
	c := newCluster(t)
	in, distilled := c.name(), c.name()
	kafkatest.Create(t, c.brokers, in, 2, nil)
	kafkatest.Create(t, c.brokers, distilled, 2, nil)
	key, value := []byte("k"), []byte("no example")
	kafkatest.Produce(t, c.brokers, stream.Record{Topic: in, Partition: 1, Key: key, Value: value, Headers: []stream.Header{{Key: "a", Value: []byte("b")}}})
	f := newFleet(t, "sift", "--brokers", strings.Join(c.brokers, ","), "--topics", in, "--distilled-topic", distilled, "--group", in, "--model-topic", c.name(), "-q")
	got := make(chan *kgo.Record, 1)
	follow(t, c.brokers, distilled, func(r *kgo.Record) (int32, int64) {
		got <- r
		return 0, 0
	})
	f.scale(1)
	r := <-got
	headers := ""
	for _, h := range r.Headers {
		headers += fmt.Sprintf("%s=%s;", h.Key, h.Value)
	}
	if want := "a=b;__streamsvm.sift=1 p=1 f=0 v=0 e=0;__streamsvm.source=" + in + "/1:0;"; headers != want || r.Partition != 1 || string(r.Key) != "k" || string(r.Value) != "no example" {
		t.Errorf("%+v with headers %s, want %s", r, headers, want)
	}
}

// TestGroupCluster is TestPredictGroup on three brokers of Apache Kafka, one of
// which is killed, with as many records as STREAMSVM_TEST_GROUP says.
func TestGroupCluster(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("STREAMSVM_TEST_GROUP"))
	if n == 0 {
		t.Skip("set STREAMSVM_TEST_GROUP to the number of records, e.g. 1000000 (some minutes)")
	}
	c := kafkatest.NewCluster(t)
	for _, command := range []string{"predict", "sift"} {
		t.Run(command, func(t *testing.T) {
			c.In(t)
			in, out, distilled := kafkatest.Topic(t, c.Brokers, 8, nil), kafkatest.Topic(t, c.Brokers, 8, nil), kafkatest.Topic(t, c.Brokers, 8, nil)
			d := &disturbed{records: n, workers: 4, most: 8, kills: 14, timeout: 10 * time.Second, middle: func() {
				node := c.Leader(out, 3)
				c.Kill(node)
				time.Sleep(deadFor)
				c.Start(node)
			}}
			start := time.Now()
			switch command {
			case "sift":
				siftTrial(t, c.Brokers, in, distilled, d)
			default:
				f := newFleet(t, "predict", "--model", groupModel(t), "--topics", in, "--predictions-topic", out, "--group", in, "--brokers", strings.Join(c.Brokers, ","), "--codec", "libsvm")
				d.run(t, c.Brokers, in, f, follow(t, c.Brokers, out, predictedFrom(t)))
			}
			t.Logf("in %s s", sec(time.Since(start)))
		})
	}
}

// TestSecureGroup: a member needs what acls prints, and each of it.
func TestSecureGroup(t *testing.T) {
	eachCluster(t, func(t *testing.T, s *kafkatest.Secure) {
		model, base := groupModel(t), fmt.Sprintf("secure-group-%d", time.Now().UnixNano())
		in, out := base+"-in", base+"-out"
		s.CreateTopic("SASL", in)
		s.CreateTopic("SASL", out)
		login := []string{"--brokers", s.Listeners["SASL"], "--sasl-mechanism", "plain", "--sasl-username", "trainer", "--sasl-password-file", s.PasswordFile}
		s.Allow("SASL", must(t, append([]string{"config", "acls", "predict", "--", "--topics", out, "--predictions-topic", in}, login...)...))
		must(t, append([]string{"copy", moons(t, "a.libsvm", 50, 0), "--topic", in, "-q", "--codec", "libsvm"}, login...)...)
		lines := strings.SplitAfter(must(t, append([]string{"config", "acls", "predict", "--", "--topics", in, "--predictions-topic", out, "--group", base}, login...)...), "\n")
		args := append([]string{"predict", "--model", model, "--topics", in, "--predictions-topic", out, "--group", base, "--codec", "libsvm", "-q"}, login...)
		for _, what := range []string{"--group", "--transactional-id"} {
			missing := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, " "+what+" ") })
			s.Allow("SASL", strings.Join(lines[:missing], "")+strings.Join(lines[missing+1:], ""))
			if code, _, text := streamsvm(t.Context(), args...); code != int(cli.Unavailable) || !strings.Contains(strings.ToLower(text), "authorization") {
				t.Errorf("without %s: exit code %d: %s", what, code, text)
			}
			s.Revoke("SASL", strings.Join(lines, ""))
		}
		s.Allow("SASL", strings.Join(lines, "")+must(t, append([]string{"config", "acls", "predict", "--", "--topics", out}, login...)...))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan int, 1)
		go func() {
			code, _, text := streamsvm(ctx, args...)
			if code != 0 {
				t.Errorf("exit code %d: %s", code, text)
			}
			done <- code
		}()
		for n := uint64(0); n != 50 && t.Context().Err() == nil; {
			rec := filepath.Join(t.TempDir(), "out.ssr")
			must(t, append([]string{"copy", rec, "--topics", out, "--until-end", "-q"}, login...)...)
			n = decode[[]inspect.Description](t, must(t, "model", "inspect", "--json", rec))[0].Records
		}
		cancel()
		<-done
	})
}
