package kafkaio

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
)

// TopicSpec describes a topic to create.
type TopicSpec struct {
	Name string
	// Partitions and Replication, 0: the broker's defaults.
	Partitions, Replication int
	// Config are topic settings, e.g. cleanup.policy.
	Config map[string]string
}

// CreateTopic creates the topic unless it exists, and reports whether it did
// so. It waits for a broker as NewSource does.
func CreateTopic(ctx context.Context, cfg Config, t TopicSpec) (created bool, err error) {
	c, err := cfg.open(nil)
	if err != nil {
		return false, err
	}
	defer c.close()
	return c.create(ctx, t, 0)
}

func (c *client) create(ctx context.Context, t TopicSpec, maxDown time.Duration) (created bool, err error) {
	orDefault := func(n int) int {
		if n <= 0 {
			return -1
		}
		return n
	}
	cfg := kafka.TopicConfig{Topic: t.Name, NumPartitions: orDefault(t.Partitions), ReplicationFactor: orDefault(t.Replication)}
	for _, k := range slices.Sorted(maps.Keys(t.Config)) {
		cfg.ConfigEntries = append(cfg.ConfigEntries, kafka.ConfigEntry{ConfigName: k, ConfigValue: t.Config[k]})
	}
	// Asking to create a topic that exists needs the permission to create it.
	err = retry(ctx, c, "create topic", maxDown, func(ctx context.Context) error {
		found, err := c.partitions(ctx, []string{t.Name})
		if len(found[t.Name]) > 0 {
			return kafka.TopicAlreadyExists
		}
		// Who may not see a topic may still be allowed to create it.
		if err != nil && !errors.Is(err, kafka.TopicAuthorizationFailed) {
			return err
		}
		resp, err := c.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{cfg}})
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

// topicConfig returns one setting of a topic.
func (c *client) topicConfig(ctx context.Context, topic, name string) (string, error) {
	resp, err := c.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{name},
	}}})
	if err != nil {
		return "", err
	}
	for _, r := range resp.Resources {
		if r.Error != nil {
			return "", r.Error
		}
		for _, e := range r.ConfigEntries {
			if e.ConfigName == name {
				return e.ConfigValue, nil
			}
		}
	}
	return "", fmt.Errorf("kafka: topic %s has no setting %s", topic, name)
}
