package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
)

// inputWriter writes examples to a topic at a steady rate, some of which are no
// examples. It is franz-go's client alone: idempotent, acknowledged by all
// replicas in sync, records in turn to all partitions there are.
type inputWriter struct {
	t       *testing.T
	brokers []string
	topic   string
	lines   []string // objects of examples, to be used again and again
	id      string   // transactional id; "": no transactions

	stop, done chan struct{}

	mu      sync.Mutex
	fates   []fate // by number of the record
	longest time.Duration
}

// fate of a record that the writer has sent.
type fate byte

const (
	unknown fate = iota
	stored
	aborted
)

// writeRate is how many records the writer sends a second, and transaction how many
// are in a transaction.
const (
	writeRate   = 2000
	transaction = 400
)

// every so manyth record cannot be used, from the badFirst on: the first ones
// tell the learner the dimension.
const (
	badEvery = 97
	badFirst = 50
)

func (w *inputWriter) bad(n int) bool { return n%badEvery == badFirst }

func (w *inputWriter) value(n int) string {
	if w.bad(n) {
		return fmt.Sprintf(`{"id":"%d","x":[1,"?"],"y":1}`, n)
	}
	return fmt.Sprintf(`{"id":"%d",%s`, n, w.lines[n%len(w.lines)][1:])
}

func (w *inputWriter) client() *kgo.Client {
	opts := []kgo.Opt{
		kgo.SeedBrokers(w.brokers...), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.MaxBufferedRecords(1 << 20),
		kgo.ProducerLinger(5 * time.Millisecond), kgo.MetadataMaxAge(2 * time.Second), kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.ProduceRequestTimeout(5 * time.Second), kgo.RequestTimeoutOverhead(2 * time.Second),
	}
	if w.id != "" {
		opts = append(opts, kgo.TransactionalID(w.id), kgo.TransactionTimeout(time.Minute))
	}
	c, err := kgo.NewClient(opts...)
	if err != nil {
		w.t.Error(err)
	}
	return c
}

func (w *inputWriter) start() {
	w.stop, w.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(w.done)
		if w.id == "" {
			w.write()
		} else {
			w.writeTransactions()
		}
	}()
}

// end stops the writer when all that it has sent is acknowledged.
func (w *inputWriter) end() {
	close(w.stop)
	<-w.done
}

// send sends the next record.
func (w *inputWriter) send(c *kgo.Client, acknowledged func(n int, err error)) {
	w.mu.Lock()
	n := len(w.fates)
	w.fates = append(w.fates, unknown)
	w.mu.Unlock()
	sent := time.Now()
	c.Produce(context.Background(), &kgo.Record{Topic: w.topic, Value: []byte(w.value(n))}, func(_ *kgo.Record, err error) {
		w.mu.Lock()
		w.longest = max(w.longest, time.Since(sent))
		w.mu.Unlock()
		acknowledged(n, err)
	})
}

func (w *inputWriter) settle(f fate, ns ...int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range ns {
		w.fates[n] = f
	}
}

// batch is how many records are sent at once, when due says so.
const batch = 20

func due() *time.Ticker { return time.NewTicker(time.Second * batch / writeRate) }

func (w *inputWriter) write() {
	c := w.client()
	defer c.Close()
	tick := due()
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			if err := c.Flush(context.Background()); err != nil {
				w.t.Error(err)
			}
			return
		case <-tick.C:
		}
		for range batch {
			w.send(c, func(n int, err error) {
				if err != nil {
					w.t.Errorf("record %d is not written: %v", n, err)
					return
				}
				w.settle(stored, n)
			})
		}
	}
}

// writeTransactions aborts every fifth one.
func (w *inputWriter) writeTransactions() {
	c := w.client()
	defer func() { c.Close() }()
	tick := due()
	defer tick.Stop()
	for n := 0; ; n++ {
		var in []int
		var mu sync.Mutex
		err := c.BeginTransaction()
		for sent := 0; err == nil && sent < transaction; {
			select {
			case <-w.stop:
				sent = transaction
			case <-tick.C:
				for range batch {
					w.send(c, func(n int, _ error) {
						mu.Lock()
						in = append(in, n)
						mu.Unlock()
					})
				}
				sent += batch
			}
		}
		how, f := kgo.TryCommit, stored
		if n%5 == 4 {
			how, f = kgo.TryAbort, aborted
		}
		if err == nil {
			err = c.Flush(context.Background())
		}
		if err == nil {
			err = c.EndTransaction(context.Background(), how)
		}
		if err != nil {
			// What has come of it is not known. A new client of the same id ends it.
			w.t.Logf("transaction %d: %v", n, err)
			c.Close()
			c = w.client()
		} else {
			w.settle(f, in...)
		}
		select {
		case <-w.stop:
			return
		default:
		}
	}
}

// standstill returns the longest time that a record has waited for its
// acknowledgement since it was last asked.
func (w *inputWriter) standstill() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.longest
	w.longest = 0
	return d
}

// trainee is a process of train that is watched.
type trainee struct {
	t    *testing.T
	args []string
	url  string
	log  string // a file

	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // then

	mu      sync.Mutex
	high    uint64 // most records consumed so far, by any life
	rose    time.Time
	longest time.Duration // without a rise
	metrics string        // the last answer
}

func newTrainee(t *testing.T, dir string, args []string) *trainee {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	tr := &trainee{t: t, args: append(args, "--listen", addr), url: "http://" + addr + "/metrics", log: filepath.Join(dir, "train.log"), rose: time.Now()}
	tr.start()
	t.Cleanup(func() {
		tr.kill()
		if text, _ := os.ReadFile(tr.log); t.Failed() {
			t.Logf("log of the trainer:\n%s", text[max(0, len(text)-8000):])
		}
	})
	go tr.watch()
	return tr
}

func (tr *trainee) start() {
	f, err := os.OpenFile(tr.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		tr.t.Fatal(err)
	}
	defer f.Close()
	cmd, done := process(tr.t, tr.args...), make(chan struct{})
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		tr.t.Fatal(err)
	}
	tr.cmd, tr.done = cmd, done
	go func() {
		tr.err = cmd.Wait()
		close(done)
	}()
}

func (tr *trainee) kill() {
	_ = tr.cmd.Process.Kill()
	<-tr.done
}

// end asks the trainer to end, which it must do well.
func (tr *trainee) end() {
	tr.t.Helper()
	_ = tr.cmd.Process.Signal(syscall.SIGTERM)
	<-tr.done
	if tr.err != nil {
		tr.t.Errorf("the trainer ended with %v", tr.err)
	}
}

var consumedTotal = regexp.MustCompile(`(?m)^streamsvm_records_consumed_total (\S+)`)

// watch notes how the number of records consumed rises, until the test ends.
func (tr *trainee) watch() {
	client := http.Client{Timeout: time.Second}
	for tr.t.Context().Err() == nil {
		time.Sleep(50 * time.Millisecond)
		text := ""
		if resp, err := client.Get(tr.url); err == nil {
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			text = string(body)
		}
		n := 0.0
		if m := consumedTotal.FindStringSubmatch(text); m != nil {
			n, _ = strconv.ParseFloat(m[1], 64)
		}
		tr.mu.Lock()
		tr.metrics = text
		now := time.Now()
		tr.longest = max(tr.longest, now.Sub(tr.rose))
		if uint64(n) > tr.high {
			tr.high, tr.rose = uint64(n), now
		}
		tr.mu.Unlock()
	}
}

// standstill returns the longest time without learning since it was last asked.
func (tr *trainee) standstill() time.Duration {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	d := tr.longest
	tr.longest = 0
	return d
}

func (tr *trainee) consumed() uint64 {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.high
}

// until waits until the metrics satisfy ok, while the trainer runs.
func (tr *trainee) until(what string, ok func(consumed uint64, metrics string) bool) {
	tr.t.Helper()
	for end := time.Now().Add(4 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		tr.mu.Lock()
		yes := ok(tr.high, tr.metrics)
		tr.mu.Unlock()
		if yes {
			return
		}
		select {
		case <-tr.done:
			tr.t.Fatalf("waiting for %s: the trainer has ended: %v", what, tr.err)
		default:
		}
		if time.Now().After(end) {
			tr.t.Fatalf("waited in vain for %s; %d records consumed", what, tr.consumed())
		}
	}
}

// further waits until so many more records are consumed.
func (tr *trainee) further(n uint64) {
	tr.t.Helper()
	target := tr.consumed() + n
	tr.until(fmt.Sprintf("%d records", target), func(consumed uint64, _ string) bool { return consumed >= target })
}

// follower is a process of subscribe, and the lines that it prints.
type follower struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  buffer
	errs buffer
}

func newFollower(t *testing.T, args ...string) *follower {
	f := &follower{t: t, cmd: process(t, append([]string{"model", "follow", "--json"}, args...)...)}
	f.cmd.Stdout, f.cmd.Stderr = &f.out, &f.errs
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = f.cmd.Process.Kill()
		_ = f.cmd.Wait() // reports the kill
		if t.Failed() {
			t.Logf("log of the subscriber:\n%s", f.errs.String())
		}
	})
	return f
}

// updates returns what has come.
func (f *follower) updates() (all []updateLine) {
	f.t.Helper()
	dec := json.NewDecoder(strings.NewReader(f.out.String()))
	for {
		var u updateLine
		err := dec.Decode(&u)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return all
		}
		if err != nil {
			f.t.Fatal(err)
		}
		all = append(all, u)
	}
}

// has waits until the last update has the hash.
func (f *follower) has(hash string) {
	f.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		all := f.updates()
		if len(all) > 0 && all[len(all)-1].Hash == hash {
			break
		}
		if time.Now().After(end) {
			f.t.Errorf("the subscriber has got %d updates, but not the model %s", len(all), hash)
			break
		}
	}
	all := f.updates()
	for i := 1; i < len(all); i++ {
		// A trainer that has been started again publishes its newest model again.
		if a, b := all[i-1], all[i]; b.Epoch < a.Epoch || b.Version < a.Version || b.Epoch == a.Epoch && b.Version == a.Version {
			f.t.Errorf("the subscriber got version %d of epoch %d after version %d of epoch %d", b.Version, b.Epoch, a.Version, a.Epoch)
		}
	}
}

// inOrder returns the records of a topic, partition by partition, in the order
// of the merge: of the next records of all partitions the one with the smallest
// timestamp comes first, and of those the one of the first partition.
func inOrder(recs []place) []place {
	parts := map[int32][]place{}
	for _, r := range recs {
		parts[r.partition] = append(parts[r.partition], r)
	}
	var out []place
	for len(out) < len(recs) {
		var first []place
		for _, p := range parts {
			if len(p) > 0 && (first == nil || p[0].ms < first[0].ms || p[0].ms == first[0].ms && p[0].partition < first[0].partition) {
				first = p
			}
		}
		out = append(out, first[0])
		parts[first[0].partition] = first[1:]
	}
	return out
}

// place of a record, and when it was made.
type place struct {
	partition int32
	offset    int64
	ms        int64
}

// checkRecords compares what the topic holds with what was written and with what
// the recording says was consumed. It returns how many records there are, and
// where those are that cannot be used.
func checkRecords(t *testing.T, w *inputWriter, recording string, ordered bool) (n int, bad map[place]bool) {
	t.Helper()
	seen := make([]int, len(w.fates))
	bad = map[place]bool{}
	var places []place
	for _, r := range kafkatest.ReadAll(t, w.brokers, w.topic, kgo.FetchIsolationLevel(kgo.ReadCommitted())) {
		id, _, _ := strings.Cut(strings.TrimPrefix(string(r.Value), `{"id":"`), `"`)
		i, err := strconv.Atoi(id)
		if err != nil || i >= len(seen) || string(r.Value) != w.value(i) {
			t.Fatalf("the topic holds %q", r.Value)
		}
		seen[i]++
		at := place{r.Partition, r.Offset, r.Time.UnixMilli()}
		places = append(places, at)
		if w.bad(i) {
			bad[at] = true
		}
	}
	for i, times := range seen {
		if f := w.fates[i]; times > 1 || f == stored && times == 0 || f == aborted && times > 0 {
			t.Errorf("record %d, of fate %d, is %d times in the topic", i, f, times)
		}
	}
	var got []place
	for _, r := range recordedRecords(t, recording) {
		got = append(got, place{r.Partition, r.Offset, r.Time.UnixMilli()})
	}
	want := inOrder(places)
	if !ordered {
		// What was consumed of a partition is in its order, whatever the others'.
		byPartition := func(a, b place) int { return int(a.partition) - int(b.partition) }
		slices.SortStableFunc(want, byPartition)
		got = slices.Clone(got)
		slices.SortStableFunc(got, byPartition)
	}
	if len(got) != len(want) {
		t.Errorf("%d records consumed, the topic holds %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("record %d consumed is %+v, should be %+v", i, got[i], want[i])
			break
		}
	}
	return len(places), bad
}

// oneLetterEach compares the dead letters with the records that should have one.
func oneLetterEach(t *testing.T, brokers []string, topic string, bad map[place]bool) {
	t.Helper()
	type at struct {
		partition, offset string
	}
	letters := map[at]int{}
	for _, r := range kafkatest.ReadAll(t, brokers, topic, kgo.FetchIsolationLevel(kgo.ReadCommitted())) {
		h := map[string]string{}
		for _, kv := range r.Headers {
			h[kv.Key] = string(kv.Value)
		}
		letters[at{h["__streamsvm.errors.partition"], h["__streamsvm.errors.offset"]}]++
	}
	for p := range bad {
		k := at{fmt.Sprint(p.partition), fmt.Sprint(p.offset)}
		if letters[k] != 1 {
			t.Errorf("record %d of partition %d has %d dead letters", p.offset, p.partition, letters[k])
		}
		delete(letters, k)
	}
	for k := range letters {
		t.Errorf("there is a dead letter about record %s of partition %s, with which nothing is wrong", k.offset, k.partition)
	}
}

// sameFile compares two files.
func sameFile(t *testing.T, a, b string) {
	t.Helper()
	x, err1 := os.ReadFile(a)
	y, err2 := os.ReadFile(b)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(x, y) {
		t.Errorf("%s and %s differ", a, b)
	}
}
