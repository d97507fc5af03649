package broker_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/streamsvm/streamsvm/contrib/broker"
)

// confluent produces a record and waits until it is delivered.
const confluent = `
import sys
from confluent_kafka import Producer
p, failed = Producer({"bootstrap.servers": sys.argv[1], "message.timeout.ms": sys.argv[3]}), []
p.produce(sys.argv[2], b"v", on_delivery=lambda err, m: err and failed.append(str(err)))
p.flush(30)
sys.exit(failed[0] if failed else 0)
`

// A creator has a client of the given kind write to a topic, or ask for its metadata,
// within limit if it does not exist.
type creator struct {
	name string
	run  func(t *testing.T, addr, topic string, limit time.Duration) error
}

var creators = []creator{
	{"franz-go", func(t *testing.T, addr, topic string, limit time.Duration) error {
		c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(1))
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return c.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr()
	}},
	{"kafka-go", func(t *testing.T, addr, topic string, limit time.Duration) error {
		w := kafka.Writer{Addr: kafka.TCP(addr), Topic: topic, AllowAutoTopicCreation: true, BatchTimeout: time.Millisecond, Transport: &kafka.Transport{}}
		defer w.Transport.(*kafka.Transport).CloseIdleConnections()
		defer w.Close()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return w.WriteMessages(ctx, kafka.Message{Value: []byte("v")})
	}},
	{"metadata of version 1", func(t *testing.T, addr, topic string, _ time.Duration) error {
		got, err := metadata(t, addr, topic, kgo.MaxVersions(kversion.V0_10_0()))
		if err == nil && got != 1 {
			err = fmt.Errorf("%d partitions", got)
		}
		return err
	}},
	{"kcat", func(t *testing.T, addr, topic string, limit time.Duration) error {
		if _, err := exec.LookPath("kcat"); err != nil {
			t.Skip(err)
		}
		c := exec.CommandContext(t.Context(), "kcat", "-b", addr, "-P", "-t", topic, "-X", fmt.Sprintf("message.timeout.ms=%d", limit.Milliseconds()))
		c.Stdin = strings.NewReader("v\n")
		return output(c)
	}},
	{"confluent_kafka", func(t *testing.T, addr, topic string, limit time.Duration) error {
		python := os.Getenv("STREAMSVM_PYTHON")
		if python == "" {
			cache, err := os.UserCacheDir()
			if err != nil {
				t.Skip(err)
			}
			python = filepath.Join(cache, "streamsvm", "python", "bin", "python")
		}
		if err := output(exec.Command(python, "-c", "import confluent_kafka")); err != nil {
			t.Skipf("no Python with confluent_kafka; .ci/run prepare makes one: %v", err)
		}
		return output(exec.CommandContext(t.Context(), python, "-c", confluent, addr, topic, fmt.Sprint(limit.Milliseconds())))
	}},
}

func output(c *exec.Cmd) error {
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// metadata returns the number of partitions that a topic has. With versions as they
// are, it creates none.
func metadata(t *testing.T, addr, topic string, opts ...kgo.Opt) (int, error) {
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr))...)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), c)
	if err != nil {
		return 0, err
	}
	return len(resp.Topics[0].Partitions), nil
}

// Topics are created for clients that write to them, and outlive a broker that is
// killed.
func TestAutoCreate(t *testing.T) {
	dir := t.TempDir()
	start := func(o broker.Options) string {
		b, err := broker.Start(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b.Addr()
	}
	on, off := start(broker.Options{AutoCreate: true, DataDir: dir}), start(broker.Options{})
	partitions := func(addr, topic string, want int) {
		t.Helper()
		if got, err := metadata(t, addr, topic); err != nil || got != want {
			t.Errorf("topic %q has %d partitions, want %d: %v", topic, got, want, err)
		}
	}
	ran := []string{}
	for _, c := range creators {
		t.Run(c.name, func(t *testing.T) {
			topic := strings.ReplaceAll(c.name, " ", "-")
			if err := c.run(t, on, topic, 30*time.Second); err != nil {
				t.Error(err)
			}
			partitions(on, topic, 1)
			if err := c.run(t, off, topic, time.Second); err == nil {
				t.Error("written, without automatic creation")
			}
			partitions(off, topic, 0)
			ran = append(ran, topic)
		})
	}
	partitions(on, "asked-without-leave", 0)
	for _, name := range []string{"", ".", "..", "a/b", "ä", strings.Repeat("x", 250)} {
		if got, err := metadata(t, on, name, kgo.MaxVersions(kversion.V0_10_0())); err != nil || got != 0 {
			t.Errorf("topic %q has %d partitions: %v", name, got, err)
		}
	}
	left := filepath.Join(t.TempDir(), "left") // what a killed broker leaves is what there is while it runs
	if err := os.CopyFS(left, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	again := start(broker.Options{DataDir: left})
	for _, topic := range ran {
		partitions(again, topic, 1)
	}
}
