package topiclog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// Writer reads and writes logs: a kafkaio.Transactor with a Scan.
type Writer interface {
	// Take, Write and Lost are as in kafkaio.Transactor. Held reports whether the
	// transactional id has been taken and no Write has failed since.
	Take(context.Context) error
	Write(context.Context, ...stream.Record) error
	Held() bool
	Lost(context.Context) (bool, error)
	// Scan passes the committed records of the topics to take, from the given offsets or
	// the beginning to the present ends, and returns these ends.
	Scan(ctx context.Context, topics []string, from stream.Offsets, take func(*stream.Record)) (stream.Offsets, error)
	Close() error
}

// NewWriter returns a Writer on Kafka. It does not use the network yet.
func NewWriter(o kafkaio.TransactorOptions) (Writer, error) {
	t, err := kafkaio.NewTransactor(o)
	if err != nil {
		return nil, err
	}
	return writer{t, o}, nil
}

type writer struct {
	*kafkaio.Transactor
	opt kafkaio.TransactorOptions
}

// Scan implements Writer. While the id is not held it does not wait for open
// transactions: one may belong to a dead writer, and Take aborts it.
func (w writer) Scan(ctx context.Context, topics []string, from stream.Offsets, take func(*stream.Record)) (stream.Offsets, error) {
	_, ends, err := kafkaio.ReadAll(ctx, kafkaio.SourceOptions{
		Config: w.opt.Config, Topics: topics, Offsets: from, TopicWait: appear, MaxDown: w.opt.MaxDown, UntilEnd: !w.Held(),
	}, take)
	return ends, err
}

// appear is the time for which brokers may not know a topic that has just been created.
const appear = 4 * time.Second

// Create creates a compacted topic of one partition unless it exists. It returns the
// number of partitions and, if the topic existed, its settings as far as they are known.
func Create(ctx context.Context, cfg kafkaio.Config, topic string, maxDown time.Duration) (partitions int, config map[string]string, err error) {
	created, err := kafkaio.CreateTopic(ctx, cfg, kafkaio.TopicSpec{Name: topic, Partitions: 1, Config: compacted, MaxDown: maxDown})
	// A client that may not create topics may still write to one.
	if err != nil && !errors.Is(err, kafka.TopicAuthorizationFailed) && !errors.Is(err, kafka.ClusterAuthorizationFailed) {
		return 0, nil, err
	}
	if partitions, err = Partitions(ctx, cfg, topic, maxDown); err != nil || created {
		return partitions, nil, err
	}
	config, err = kafkaio.TopicConfig(ctx, cfg, topic)
	if err != nil {
		cmp.Or(cfg.Log, slog.Default()).Warn("kafka: cannot check the settings of the topic", "topic", topic, "error", err)
	}
	return partitions, config, nil
}

// Partitions returns the number of partitions of an existing topic.
func Partitions(ctx context.Context, cfg kafkaio.Config, topic string, maxDown time.Duration) (int, error) {
	found, err := kafkaio.Partitions(ctx, cfg, []string{topic}, appear, maxDown)
	return len(found), err
}

// overhead is an upper bound of the bytes that key, headers and framing add to a record.
const overhead = 4 << 10

// Unfit returns the reason why a topic with these settings cannot keep a log with records
// of up to maxRecordBytes, and the setting that would fix it, or "" if the topic can.
// Unknown settings are assumed to be right.
func Unfit(config map[string]string, maxRecordBytes int) (why, setting string) {
	if p, ok := config["cleanup.policy"]; ok && p != "compact" {
		return fmt.Sprintf("its cleanup.policy is %s, and must be compact: the newest records would be deleted after a while, or the topic grow forever", p), "cleanup.policy=compact"
	}
	least := int64(maxRecordBytes) + overhead
	if n, err := strconv.ParseInt(config["max.message.bytes"], 10, 64); err == nil && n < least {
		return fmt.Sprintf("its max.message.bytes is %d, and must be %d for records of %d bytes and a header", n, least, maxRecordBytes), fmt.Sprintf("max.message.bytes=%d", least)
	}
	return "", ""
}

// compacted uses short segments: compaction does not touch the newest one. Tombstones
// are kept for as long as a subscriber that is reading just now may take.
var compacted = map[string]string{
	"cleanup.policy":            "compact",
	"segment.bytes":             strconv.Itoa(64 << 20),
	"segment.ms":                strconv.Itoa(10 * 60 * 1000),
	"min.cleanable.dirty.ratio": "0.1",
	"delete.retention.ms":       strconv.Itoa(60 * 60 * 1000),
}
