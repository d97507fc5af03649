package deadletter

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

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
		r := &stream.Record{Topic: topic, Offset: int64(i), Value: []byte("bad")}
		why := stream.At(r, &stream.FieldError{Stage: stream.StageDecode, Reason: stream.ReasonSyntax, Err: errors.New("bad")})
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
