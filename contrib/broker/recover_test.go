package broker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/streamsvm/streamsvm/contrib/broker"
	"github.com/streamsvm/streamsvm/internal/reach"
	"github.com/streamsvm/streamsvm/internal/testkit/kafkatest"
)

// TestKilledInATransaction: of the transactions that were open when a broker was
// killed nothing is ever read, and all of what the same producers commit later.
func TestKilledInATransaction(t *testing.T) {
	dir := t.TempDir()
	start := func() *broker.Broker {
		t.Helper()
		b, err := broker.Start(broker.Options{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
	// What a killed broker leaves is what there is while it runs.
	kill := func() {
		t.Helper()
		left := filepath.Join(t.TempDir(), "left")
		if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		dir = left
	}
	// write begins a transaction.
	write := func(b *broker.Broker, values string) *kgo.Client {
		t.Helper()
		c, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.TransactionalID("id"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err == nil {
			t.Cleanup(c.Close)
			err = c.BeginTransaction()
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range strings.Split(values, "") {
			for _, topic := range []string{"one", "other"} {
				r := &kgo.Record{Topic: topic, Partition: int32(i % 2), Value: []byte(v)}
				if err := c.ProduceSync(t.Context(), r).FirstErr(); err != nil {
					t.Fatal(err)
				}
				if err := reach.Settle(t.Context(), c, topic, r.Partition); err != nil {
					t.Fatal(err)
				}
			}
		}
		return c
	}
	commit := func(c *kgo.Client) {
		t.Helper()
		if err := c.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(b *broker.Broker, want string) {
		t.Helper()
		for _, topic := range []string{"one", "other"} {
			got := map[int32]string{}
			for _, r := range kafkatest.ReadAll(t, []string{b.Addr()}, topic, kgo.FetchIsolationLevel(kgo.ReadCommitted())) {
				got[r.Partition] += string(r.Value)
			}
			if got := got[0] + "|" + got[1]; got != want {
				t.Errorf("%s holds %q, want %q", topic, got, want)
			}
		}
	}

	b := start()
	for _, topic := range []string{"one", "other"} {
		kafkatest.Create(t, []string{b.Addr()}, topic, 2, map[string]string{"cleanup.policy": "compact"})
	}
	commit(write(b, "ab"))
	write(b, "XY")
	kill()
	b = start()
	commit(write(b, "cd"))
	holds(b, "ac|bd")
	write(b, "XYXY")
	kill()
	b = start()
	holds(b, "ac|bd")
	commit(write(b, "ef"))
	holds(b, "ace|bdf")
	kill()
	b = start()
	holds(b, "ace|bdf")
	commit(write(b, "gh"))
	b.Close()
	b = start()
	holds(b, "aceg|bdfh")
}
