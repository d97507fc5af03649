package kafkaio

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TopicSpec describes a topic to create.
type TopicSpec struct {
	Name string
	// Partitions is the number of partitions; 0 is the broker's default.
	Partitions int
	// Config holds topic settings, e.g. cleanup.policy.
	Config map[string]string
	// MaxDown is as in SourceOptions.
	MaxDown time.Duration
}

// CreateTopic creates the topic unless it exists, and reports whether it
// created it. It waits for a broker as NewSource does.
func CreateTopic(ctx context.Context, cfg Config, t TopicSpec) (created bool, err error) {
	c, err := cfg.open(nil)
	if err != nil {
		return false, err
	}
	defer c.close()
	spec := kafka.TopicConfig{Topic: t.Name, NumPartitions: cmp.Or(t.Partitions, -1), ReplicationFactor: -1}
	for _, k := range slices.Sorted(maps.Keys(t.Config)) {
		spec.ConfigEntries = append(spec.ConfigEntries, kafka.ConfigEntry{ConfigName: k, ConfigValue: t.Config[k]})
	}
	// A request to create a topic needs the permission to create it, even if the topic exists.
	err = retry(ctx, c, "create topic", t.MaxDown, func(ctx context.Context) error {
		found, err := c.partitions(ctx, []string{t.Name})
		if len(found[t.Name]) > 0 {
			return kafka.TopicAlreadyExists
		}
		// A client that may not see a topic may still be allowed to create it.
		if err != nil && !errors.Is(err, kafka.TopicAuthorizationFailed) {
			return err
		}
		resp, err := c.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{spec}})
		if err != nil {
			return err
		}
		return resp.Errors[t.Name]
	})
	if errors.Is(err, kafka.TopicAlreadyExists) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("kafka: create topic %s: %w", t.Name, err)
	}
	return true, nil
}

// TopicConfig returns the settings of a topic. It does not retry.
func TopicConfig(ctx context.Context, cfg Config, topic string) (map[string]string, error) {
	c, err := cfg.open(nil)
	if err != nil {
		return nil, err
	}
	defer c.close()
	rctx, cancel := c.request(ctx, 0)
	defer cancel()
	resp, err := c.DescribeConfigs(rctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
	}}})
	if err != nil {
		return nil, fmt.Errorf("kafka: settings of topic %s: %w", topic, err)
	}
	out := map[string]string{}
	for _, r := range resp.Resources {
		if r.Error != nil {
			return nil, fmt.Errorf("kafka: settings of topic %s: %w", topic, r.Error)
		}
		for _, e := range r.ConfigEntries {
			out[e.ConfigName] = e.ConfigValue
		}
	}
	return out, nil
}

// TopicIDs returns the ids of the topics, in hexadecimal. An id changes when a
// topic is deleted and created again, which its name and its offsets do not
// show. Topics that do not exist are left out; so are all topics if the brokers
// are too old to have ids. It waits for a broker as NewSource does.
func TopicIDs(ctx context.Context, cfg Config, topics []string, maxDown time.Duration) (map[string]string, error) {
	out := map[string]string{}
	if len(topics) == 0 {
		return out, nil // the request would mean all topics
	}
	c, err := cfg.open(nil)
	if err != nil {
		return nil, err
	}
	defer c.close()
	cl, err := c.cfg.reach().Client() // kafka-go's requests are too old for ids
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	err = retry(ctx, c, "topic ids", maxDown, func(ctx context.Context) error {
		req := kmsg.NewPtrMetadataRequest()
		for _, name := range topics {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = new(name)
			req.Topics = append(req.Topics, t)
		}
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			if t.Topic != nil && t.ErrorCode == 0 && t.TopicID != [16]byte{} {
				out[*t.Topic] = hex.EncodeToString(t.TopicID[:])
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Partitions returns all partitions of the topics, in order of Compare. If a
// topic does not exist, it tries again for up to wait (negative: forever)
// before it returns an *UnknownTopicError; it never creates one. maxDown is as
// in SourceOptions.
func Partitions(ctx context.Context, cfg Config, topics []string, wait, maxDown time.Duration) ([]stream.Partition, error) {
	c, err := cfg.open(topics)
	if err != nil {
		return nil, err
	}
	defer c.close()
	found, err := c.waitTopics(ctx, topics, wait, maxDown)
	if err != nil {
		return nil, err
	}
	var ps []stream.Partition
	for _, t := range topics {
		for _, id := range found[t] {
			ps = append(ps, stream.Partition{Topic: t, ID: id})
		}
	}
	slices.SortFunc(ps, stream.Partition.Compare)
	return ps, nil
}

// Bounds returns the first offset and the end of every partition given. maxDown
// is as in SourceOptions.
func Bounds(ctx context.Context, cfg Config, ps []stream.Partition, maxDown time.Duration) (first, end stream.Offsets, err error) {
	c, err := cfg.open(nil)
	if err != nil {
		return nil, nil, err
	}
	defer c.close()
	first, end = stream.Offsets{}, stream.Offsets{}
	err = retry(ctx, c, "list offsets", maxDown, func(ctx context.Context) error {
		bs, err := c.bounds(ctx, ps, false)
		for p, b := range bs {
			first[p], end[p] = b.first, b.end
		}
		return err
	})
	return first, end, err
}

// Retention returns how long a topic with these settings keeps records; 0 is
// forever.
func Retention(config map[string]string) time.Duration {
	ms, err := strconv.ParseInt(config["retention.ms"], 10, 64)
	if !strings.Contains(config["cleanup.policy"], "delete") || err != nil || ms < 0 || ms > int64(1<<63-1)/int64(time.Millisecond) {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}
