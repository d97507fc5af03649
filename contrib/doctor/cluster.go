package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// may reports whether op, as kafka-acls.sh calls it, is among the operations that a
// broker says are allowed. A broker that does not say allows all.
func may(allowed int32, op string) bool {
	o, err := kmsg.ParseACLOperation(op)
	return allowed < 0 || err == nil && allowed&(1<<o) != 0
}

// cluster is a broker's description of its cluster.
type cluster struct {
	id      string
	brokers map[int32]string // advertised addresses
	topics  []string         // that the user may see
	// transactions says that the log of transactions exists; leaderless lists its
	// partitions that cannot be used now.
	transactions bool
	leaderless   []int32
}

// transactionLog is the topic in which brokers record transactions. The first
// transaction creates it.
const transactionLog = "__transaction_state"

func (d *checks) cluster(ctx context.Context) (*cluster, error) {
	// This asks the connected broker, not an advertised one: that may be out of reach.
	m, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, d.conn.Seed) // all topics
	if err != nil {
		return nil, err
	}
	c := &cluster{brokers: map[int32]string{}}
	if m.ClusterID != nil {
		c.id = *m.ClusterID
	}
	for _, b := range m.Brokers {
		c.brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	for _, t := range m.Topics {
		switch {
		case t.Topic == nil || t.ErrorCode != 0:
		case *t.Topic == transactionLog:
			c.transactions = true
			_, c.leaderless = partitions(&t)
		case !t.IsInternal:
			c.topics = append(c.topics, *t.Topic)
		}
	}
	return c, nil
}

// partitions returns the numbers of all partitions, and of those without a leader.
func partitions(t *kmsg.MetadataResponseTopic) (all, leaderless []int32) {
	for _, p := range t.Partitions {
		all = append(all, p.Partition)
		if p.Leader < 0 {
			leaderless = append(leaderless, p.Partition)
		}
	}
	return all, leaderless
}

// topicInfo is a broker's description of a topic.
type topicInfo struct {
	name string
	// err is kerr.UnknownTopicOrPartition, kerr.TopicAuthorizationFailed or another
	// refusal; the fields below are then empty.
	err                    error
	partitions, leaderless []int32
	allowed                int32
	config                 map[string]string
	configErr              error // why there is no config
}

// describe never creates the topic.
func (d *checks) describe(ctx context.Context, name string) (*topicInfo, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &name
	req.Topics, req.IncludeTopicAuthorizedOperations = append(req.Topics, t), true
	m, err := req.RequestWith(ctx, d.conn.Seed)
	if err != nil {
		return nil, err
	}
	info := &topicInfo{name: name}
	for _, t := range m.Topics {
		info.err, info.allowed = kerr.ErrorForCode(t.ErrorCode), t.AuthorizedOperations
		info.partitions, info.leaderless = partitions(&t)
	}
	if info.err == nil {
		info.config, info.configErr = d.config(ctx, kmsg.ConfigResourceTypeTopic, name)
	}
	return info, nil
}

func (d *checks) config(ctx context.Context, of kmsg.ConfigResourceType, name string) (map[string]string, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = of, name
	req.Resources = append(req.Resources, r)
	var to kmsg.Requestor = d.conn.Seed
	if of == kmsg.ConfigResourceTypeBroker {
		to = d.conn.Client // a broker knows only its own settings
	}
	resp, err := req.RequestWith(ctx, to)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, r := range resp.Resources {
		err = kerr.ErrorForCode(r.ErrorCode)
		for _, e := range r.Configs {
			if e.Value != nil {
				out[e.Name] = *e.Value
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// mayCreate asks the broker whether the user may create the topic, without creating
// it. The error is the refusal: by permissions, or by a policy on names. It is nil for
// a topic that exists.
func (d *checks) mayCreate(ctx context.Context, name string) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.ValidateOnly = true
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, d.conn.Seed)
	if err == nil && len(resp.Topics) == 1 {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return err
}

// coordinatorFor bounds the wait for a coordinator: the first one of a cluster takes
// seconds to appear.
const coordinatorFor = 20 * time.Second

// groupAllows returns the operations that the user may perform on the consumer
// group, which need not exist.
func (d *checks) groupAllows(ctx context.Context, group string) (int32, error) {
	ctx, cancel := context.WithTimeout(ctx, coordinatorFor)
	defer cancel()
	for {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups, req.IncludeAuthorizedOperations = []string{group}, true
		resp, err := req.RequestWith(ctx, d.conn.Client)
		if err == nil && len(resp.Groups) != 1 {
			return 0, fmt.Errorf("%d answers about group %s", len(resp.Groups), group)
		}
		if err == nil {
			if err = kerr.ErrorForCode(resp.Groups[0].ErrorCode); err == nil {
				return resp.Groups[0].AuthorizedOperations, nil
			}
		}
		if !kerr.IsRetriable(err) {
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// mayTransact reports whether the user may use a transactional id, which need not
// exist. It returns true if the broker does not say.
func (d *checks) mayTransact(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, coordinatorFor)
	defer cancel()
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	resp, err := req.RequestWith(ctx, d.conn.Client)
	if err == nil && len(resp.TransactionStates) == 1 {
		err = kerr.ErrorForCode(resp.TransactionStates[0].ErrorCode)
	}
	return !errors.Is(err, kerr.TransactionalIDAuthorizationFailed)
}
