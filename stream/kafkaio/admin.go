package kafkaio

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Operations is a set of operations that a user may perform on a resource.
type Operations struct {
	bits int32
	// Known is false if the broker does not tell.
	Known bool
}

func operations(bits int32) Operations { return Operations{bits, bits >= 0} }

// Has reports whether op is in the set; of an unknown set it is.
func (o Operations) Has(op kmsg.ACLOperation) bool {
	return !o.Known || o.bits&(1<<uint(op)) != 0
}

// ClusterInfo describes a cluster.
type ClusterInfo struct {
	ID string
	// Brokers are the addresses at which brokers tell clients to find them, by
	// number.
	Brokers map[int32]string
	// Topics are the names of all topics that the user may see.
	Topics []string
	// Allowed is what the user may do to the cluster.
	Allowed Operations
}

// Cluster describes the cluster of the broker.
func (c *Conn) Cluster(ctx context.Context) (*ClusterInfo, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil // all
	req.IncludeClusterAuthorizedOperations = true
	const last = 10 // after this version another request has the operations
	resp, err := c.requestUpTo(ctx, req, last)
	if err != nil {
		return nil, err
	}
	m := resp.(*kmsg.MetadataResponse)
	info := &ClusterInfo{Brokers: map[int32]string{}, Allowed: operations(m.AuthorizedOperations)}
	if m.ClusterID != nil {
		info.ID = *m.ClusterID
	}
	for _, b := range m.Brokers {
		info.Brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	for _, t := range m.Topics {
		if t.Topic != nil && t.ErrorCode == 0 && !t.IsInternal {
			info.Topics = append(info.Topics, *t.Topic)
		}
	}
	return info, nil
}

// TopicInfo describes a topic.
type TopicInfo struct {
	Name string
	// ID changes when a topic is made anew under its old name; zero if the
	// broker is too old to have one.
	ID [16]byte
	// Err is kerr.UnknownTopicOrPartition, kerr.TopicAuthorizationFailed or
	// another refusal; the fields below are empty then.
	Err error
	// Partitions and Leaderless are the numbers of all partitions, and of those
	// that cannot be used now.
	Partitions, Leaderless []int32
	Allowed                Operations
	// Config holds the topic's settings; ConfigErr says why there are none.
	Config    map[string]string
	ConfigErr error
}

// Topic describes the topic. It never creates it.
func (c *Conn) Topic(ctx context.Context, name string) (*TopicInfo, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &name
	req.Topics = append(req.Topics, t)
	req.AllowAutoTopicCreation = false
	req.IncludeTopicAuthorizedOperations = true
	resp, err := c.Request(ctx, req)
	if err != nil {
		return nil, err
	}
	info := &TopicInfo{Name: name}
	for _, t := range resp.(*kmsg.MetadataResponse).Topics {
		info.Err = kerr.ErrorForCode(t.ErrorCode)
		info.ID, info.Allowed = t.TopicID, operations(t.AuthorizedOperations)
		for _, p := range t.Partitions {
			info.Partitions = append(info.Partitions, p.Partition)
			if p.Leader < 0 {
				info.Leaderless = append(info.Leaderless, p.Partition)
			}
		}
	}
	if info.Err == nil {
		info.Config, info.ConfigErr = c.topicConfig(ctx, name)
	}
	return info, nil
}

// MayCreate asks the broker whether the user may create the topic, without
// creating it. The error is the broker's refusal: permissions, or a name or
// policy that rules the topic out. A topic that exists may be created.
func (c *Conn) MayCreate(ctx context.Context, name string) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.ValidateOnly = true
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, t)
	resp, err := c.Request(ctx, req)
	if err != nil {
		return err
	}
	for _, t := range resp.(*kmsg.CreateTopicsResponse).Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); !errors.Is(err, kerr.TopicAlreadyExists) {
			return err
		}
	}
	return nil
}

func (c *Conn) topicConfig(ctx context.Context, name string) (map[string]string, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
	req.Resources = append(req.Resources, r)
	resp, err := c.Request(ctx, req)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, r := range resp.(*kmsg.DescribeConfigsResponse).Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return nil, err
		}
		for _, e := range r.Configs {
			if e.Value != nil {
				out[e.Name] = *e.Value
			}
		}
	}
	return out, nil
}

// Group returns what the user may do to the consumer group, which need not
// exist. It waits a little for the group's coordinator: the first one of a
// cluster takes seconds to come.
func (c *Conn) Group(ctx context.Context, cfg Config, group string) (Operations, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*c.timeout)
	defer cancel()
	var wait backoff
	for {
		ops, err := c.group(ctx, cfg, group)
		if !kerr.IsRetriable(err) || wait.sleep(ctx) != nil {
			return ops, err
		}
	}
}

func (c *Conn) group(ctx context.Context, cfg Config, group string) (Operations, error) {
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey, find.CoordinatorKeys = group, []string{group}
	resp, err := c.Request(ctx, find)
	if err != nil {
		return Operations{}, err
	}
	f := resp.(*kmsg.FindCoordinatorResponse)
	code, host, port := f.ErrorCode, f.Host, f.Port
	for _, k := range f.Coordinators {
		code, host, port = k.ErrorCode, k.Host, k.Port
	}
	if err := kerr.ErrorForCode(code); err != nil {
		return Operations{}, err
	}
	at, err := Dial(ctx, cfg, net.JoinHostPort(host, strconv.Itoa(int(port))), nil)
	if err != nil {
		return Operations{}, err
	}
	defer at.Close()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	req.IncludeAuthorizedOperations = true
	const last = 5 // later versions say nothing about groups that do not exist
	if resp, err = at.requestUpTo(ctx, req, last); err != nil {
		return Operations{}, err
	}
	groups := resp.(*kmsg.DescribeGroupsResponse).Groups
	if len(groups) != 1 {
		return Operations{}, fmt.Errorf("%d answers about group %s", len(groups), group)
	}
	if err := kerr.ErrorForCode(groups[0].ErrorCode); err != nil {
		return Operations{}, err
	}
	return operations(groups[0].AuthorizedOperations), nil
}

// requestUpTo is Request with a version not above last.
func (c *Conn) requestUpTo(ctx context.Context, req kmsg.Request, last int16) (kmsg.Response, error) {
	v, ok := c.versions[req.Key()]
	if !ok {
		return nil, fmt.Errorf("broker %s does not know the request %s", c.broker, kmsg.NameForKey(req.Key()))
	}
	req.SetVersion(min(v, req.MaxVersion(), last))
	return c.send(ctx, req)
}

// Bounds returns the first offset and the end of every partition given. It
// asks once.
func Bounds(ctx context.Context, cfg Config, ps []stream.Partition) (first, end stream.Offsets, err error) {
	c, err := cfg.open(nil)
	if err != nil {
		return nil, nil, err
	}
	defer c.close()
	rctx, cancel := c.request(ctx, 0)
	defer cancel()
	bs, err := c.bounds(rctx, ps, false)
	if err != nil {
		return nil, nil, err
	}
	first, end = stream.Offsets{}, stream.Offsets{}
	for p, b := range bs {
		first[p], end[p] = b.first, b.end
	}
	return first, end, nil
}

// TopicIDs returns the ids of the topics, in hexadecimal. An id changes when a
// topic is deleted and made anew, which its name and its offsets do not show.
// Topics that do not exist are left out, and all are if the brokers are too old
// to have ids. It waits for a broker as NewSource does.
func TopicIDs(ctx context.Context, cfg Config, topics []string, maxDown time.Duration) (map[string]string, error) {
	c, err := cfg.open(nil)
	if err != nil {
		return nil, err
	}
	defer c.close()
	var out map[string]string
	err = retry(ctx, c, "topic ids", maxDown, func(ctx context.Context) error {
		var last error
		for _, addr := range cfg.Brokers {
			conn, err := Dial(ctx, cfg, addr, nil)
			if err == nil {
				out, err = conn.topicIDs(ctx, topics)
				conn.Close()
			}
			if last = err; err == nil {
				return nil
			}
		}
		return last
	})
	return out, err
}

func (c *Conn) topicIDs(ctx context.Context, topics []string) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range topics {
		t, err := c.Topic(ctx, name)
		if err != nil {
			return nil, err
		}
		if t.Err == nil && t.ID != [16]byte{} {
			out[name] = hex.EncodeToString(t.ID[:])
		}
	}
	return out, nil
}
