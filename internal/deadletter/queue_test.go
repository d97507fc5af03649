package deadletter

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// bad is a record that cannot be used, and why.
func bad(topic string, partition int32, offset int64) (*stream.Record, *stream.RecordError) {
	r := &stream.Record{Topic: topic, Partition: partition, Offset: offset, Value: []byte("bad")}
	return r, stream.At(r, &stream.FieldError{Stage: stream.StageDecode, Reason: stream.ReasonSyntax, Err: errors.New("bad")})
}

// Of the letters of a transaction that has been interrupted, some are there: the
// others are written, and none twice.
func TestPartOfATransaction(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic, cfg := kafkatest.Topic(t, brokers, 1, nil), kafkaio.Config{Brokers: brokers}
	q, err := Open(t.Context(), Options{Config: cfg, Topics: []string{topic}, Suffix: ".dlq", Log: slog.New(slog.DiscardHandler), ID: topic})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	var letters []stream.Record
	for i := range 5 {
		r, why := bad(topic, 0, int64(i))
		letters = append(letters, New(r, why, ".dlq", time.Now().Truncate(time.Millisecond), 1<<20))
	}
	other, err := kafkaio.NewTransactor(kafkaio.TransactorOptions{Config: cfg, ID: TransactionalIDs(topic+".dlq") + topic})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Take(t.Context()); err != nil { // what the queue writes next fails
		t.Fatal(err)
	}
	if err := other.Write(t.Context(), letters[1], letters[3]); err != nil {
		t.Fatal(err)
	}
	if err := q.write(t.Context(), q.watermarks, letters); err != nil {
		t.Fatal(err)
	}
	// Released by a further holder of the id, all is visible.
	if err := other.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	_, _, err = kafkaio.ReadAll(t.Context(), kafkaio.SourceOptions{Config: cfg, Topics: []string{topic + ".dlq"}}, func(r *stream.Record) {
		l, err := Parse(r)
		if err != nil {
			t.Error(err)
			return
		}
		found[fmt.Sprint(l.Offset)]++
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range letters {
		if n := found[fmt.Sprint(i)]; n != 1 {
			t.Errorf("letter %d is there %d times", i, n)
		}
	}
}

// TestOrderOfAnotherRun: without an order between partitions, a run may come further in one
// of them and less far in another than the run before it, whose letters about the other
// one's records are still known to the run after it.
func TestOrderOfAnotherRun(t *testing.T) {
	brokers := kafkatest.Brokers(t)
	topic, cfg := kafkatest.Topic(t, brokers, 2, nil), kafkaio.Config{Brokers: brokers}
	partition := func(id int32) stream.Partition { return stream.Partition{Topic: topic, ID: id} }
	run := func(from stream.Offsets, mark string, sends ...[2]int64) string {
		t.Helper()
		q, err := Open(t.Context(), Options{Config: cfg, Topics: []string{topic}, Suffix: ".dlq", Log: slog.New(slog.DiscardHandler), ID: topic, Restored: from != nil, From: from, Mark: mark})
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		first := q.Mark()
		if r, why := bad("other", 0, 0); q.Send(t.Context(), r, why) == nil {
			t.Error("a letter about a record of another topic was accepted")
		}
		for _, s := range sends {
			r, why := bad(topic, int32(s[0]), s[1])
			if err := q.Send(t.Context(), r, why); err != nil {
				t.Fatal(err)
			}
		}
		if err := q.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(from) == 0 {
			return first // as of a checkpoint before all of them
		}
		return q.Mark()
	}
	mark := run(nil, "", [2]int64{0, 5}, [2]int64{1, 8})
	mark = run(stream.Offsets{partition(0): 0, partition(1): 0}, mark, [2]int64{0, 5}, [2]int64{0, 9})
	run(stream.Offsets{partition(0): 10, partition(1): 2}, mark, [2]int64{1, 8})
	found := map[Origin]int{}
	_, _, err := kafkaio.ReadAll(t.Context(), kafkaio.SourceOptions{Config: cfg, Topics: []string{topic + ".dlq"}}, func(r *stream.Record) {
		if l, err := Parse(r); err != nil {
			t.Error(err)
		} else {
			found[l.Origin()]++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := map[Origin]int{{partition(0), 5}: 1, {partition(0), 9}: 1, {partition(1), 8}: 1}; !maps.Equal(found, want) {
		t.Errorf("dead letters %v, want %v", found, want)
	}
}
