package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fleet is the processes of a group, each of which is started again when it ends
// in a way that says so.
type fleet struct {
	t    *testing.T
	args []string // without --member

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
	p := process(f.t, append(f.args, "--member", strconv.Itoa(i))...)
	p.Stderr = nil
	if testing.Verbose() {
		p.Stderr = os.Stderr
	}
	if err := p.Start(); err != nil {
		f.t.Error(err)
		return
	}
	f.mu.Lock()
	f.procs[i] = p
	f.mu.Unlock()
	f.wg.Go(func() {
		_ = p.Wait()
		f.mu.Lock()
		f.codes[p.ProcessState.ExitCode()]++
		again := f.procs[i] == p
		f.mu.Unlock()
		if again {
			f.start(i)
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

// disturbed is what a fleet goes through: records are written in parts, and
// something happens after each.
type disturbed struct {
	records, kills int
	workers, most  int           // processes that are killed, and at most
	timeout        time.Duration // of sessions
	middle         func()        // in the middle; may be nil
}

// run lets all of it happen to the fleet f, and waits for outputs of all
// records, of which there are so many for n records written.
func (d *disturbed) run(t *testing.T, brokers []string, topic string, f *fleet, o *outputs) {
	t.Helper()
	const partitions = 8
	c := kafkatest.Client(t, brokers)
	parts, written := d.kills+4, 0
	write := func() {
		n := d.records / parts
		if d.records-written < 2*n {
			n = d.records - written
		}
		recs := make([]stream.Record, n)
		for i := range recs {
			k := written + i
			recs[i] = stream.Record{Topic: topic, Partition: int32(k % partitions), Value: fmt.Appendf(nil, "%d 1:%d.5 2:-%d", 2*(k%2)-1, k%3, k%5)}
		}
		kafkatest.ProduceWith(t, c, recs...)
		written += n
	}
	further := func() { o.until(t, o.distinct()+min(100, written-o.distinct())) }

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
	o.until(t, d.records)
	f.scale(0)
	o.until(t, d.records)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.twice > 0 || o.disordered > 0 {
		t.Errorf("%d records are there twice, %d out of order", o.twice, o.disordered)
	}
	if f.codes[int(cli.Fenced)] > 0 {
		t.Errorf("a process thought that another one had taken its place: exit codes %v", f.codes)
	}
	t.Logf("%d records, %d killed, one paused, 1 to %d to 2 processes: %d outputs, %d twice, %d missing, %d out of order; exit codes %v", d.records, d.kills, d.most, o.count, o.twice, d.records-(o.count-o.twice), o.disordered, f.codes)
}

// TestPredictGroup: exactly one prediction a record, in order, whatever happens
// to those who make them.
func TestPredictGroup(t *testing.T) {
	c := newCluster(t)
	in, out := c.name(), c.name()
	kafkatest.Create(t, c.brokers, in, 8, nil)
	kafkatest.Create(t, c.brokers, out, 8, nil)
	f := newFleet(t, "predict", "--model", groupModel(t), "--topics", in, "--predictions-topic", out, "--group", in, "--brokers", strings.Join(c.brokers, ","),
		"--codec", "libsvm", "--session-timeout", "1500ms", "--transaction-timeout", "5s")
	d := &disturbed{records: 20000, workers: 4, most: 4, kills: 12, timeout: 1500 * time.Millisecond}
	if kafkatest.Real() {
		d.kills = 5
	}
	d.run(t, c.brokers, in, f, follow(t, c.brokers, out, predictedFrom(t)))
}

// TestGroupCluster is TestPredictGroup on three brokers of Apache Kafka, one of
// which is killed, with as many records as STREAMSVM_TEST_GROUP says.
func TestGroupCluster(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("STREAMSVM_TEST_GROUP"))
	if n == 0 {
		t.Skip("set STREAMSVM_TEST_GROUP to the number of records, e.g. 1000000 (some minutes)")
	}
	c := kafkatest.NewCluster(t)
	in := kafkatest.Topic(t, c.Brokers, 8, nil)
	out := kafkatest.Topic(t, c.Brokers, 8, nil)
	f := newFleet(t, "predict", "--model", groupModel(t), "--topics", in, "--predictions-topic", out, "--group", in, "--brokers", strings.Join(c.Brokers, ","), "--codec", "libsvm")
	d := &disturbed{records: n, workers: 4, most: 8, kills: 14, timeout: 10 * time.Second, middle: func() {
		node := c.Leader(out, 3)
		c.Kill(node)
		time.Sleep(deadFor)
		c.Start(node)
	}}
	start := time.Now()
	d.run(t, c.Brokers, in, f, follow(t, c.Brokers, out, predictedFrom(t)))
	t.Logf("in %s s", sec(time.Since(start)))
}
