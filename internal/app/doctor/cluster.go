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

// may reports whether op, as kafka-acls.sh calls it, is among the operations
// that a broker says are allowed. A broker that does not say allows all.
func may(allowed int32, op string) bool {
	o, err := kmsg.ParseACLOperation(op)
	return allowed < 0 || err == nil && allowed&(1<<o) != 0
}

// cluster is what a broker tells of its cluster.
type cluster struct {
	id      string
	brokers map[int32]string // addresses at which clients are told to find them
	topics  []string         // that the user may see
	// transactions says that there is the topic in which brokers note them, and
	// leaderless which partitions of it cannot be used now.
	transactions bool
	leaderless   []int32
}

// transactionLog is the topic in which brokers note transactions. It is made
// for the first one.
const transactionLog = "__transaction_state"

func (d *checks) cluster(ctx context.Context) (*cluster, error) {
	// The broker of the connection is asked, whatever it tells of others: they
	// may be out of reach.
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
		if t.Topic != nil && t.ErrorCode == 0 && !t.IsInternal {
			c.topics = append(c.topics, *t.Topic)
		}
		if t.Topic != nil && t.ErrorCode == 0 && *t.Topic == transactionLog {
			c.transactions = true
			for _, p := range t.Partitions {
				if p.Leader < 0 {
					c.leaderless = append(c.leaderless, p.Partition)
				}
			}
		}
	}
	return c, nil
}

// topicInfo is what a broker tells of a topic.
type topicInfo struct {
	name string
	// err is kerr.UnknownTopicOrPartition, kerr.TopicAuthorizationFailed or
	// another refusal; the fields below are empty then.
	err error
	// partitions and leaderless are the numbers of all partitions, and of those
	// that cannot be used now.
	partitions, leaderless []int32
	allowed                int32
	// config holds the topic's settings; configErr says why there are none.
	config    map[string]string
	configErr error
}

// describe never creates the topic.
func (d *checks) describe(ctx context.Context, name string) (*topicInfo, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &name
	req.Topics = append(req.Topics, t)
	req.IncludeTopicAuthorizedOperations = true
	m, err := req.RequestWith(ctx, d.conn.Seed)
	if err != nil {
		return nil, err
	}
	info := &topicInfo{name: name}
	for _, t := range m.Topics {
		info.err, info.allowed = kerr.ErrorForCode(t.ErrorCode), t.AuthorizedOperations
		for _, p := range t.Partitions {
			info.partitions = append(info.partitions, p.Partition)
			if p.Leader < 0 {
				info.leaderless = append(info.leaderless, p.Partition)
			}
		}
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
		to = d.conn.Client // a broker knows its own only
	}
	resp, err := req.RequestWith(ctx, to)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, r := range resp.Resources {
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

// mayCreate asks the broker whether the user may create the topic, without
// creating it. The error is the broker's refusal: permissions, or a name or
// policy that rules the topic out. A topic that exists may be created.
func (d *checks) mayCreate(ctx context.Context, name string) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.ValidateOnly = true
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, d.conn.Seed)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); !errors.Is(err, kerr.TopicAlreadyExists) {
			return err
		}
	}
	return nil
}

// groupFor bounds how long the coordinator of a group is waited for.
const groupFor = 20 * time.Second

// groupAllows returns what the user may do to the consumer group, which need
// not exist. It waits a little for the group's coordinator: the first one of a
// cluster takes seconds to come.
func (d *checks) groupAllows(ctx context.Context, group string) (int32, error) {
	ctx, cancel := context.WithTimeout(ctx, groupFor)
	defer cancel()
	for {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{group}
		req.IncludeAuthorizedOperations = true
		resp, err := req.RequestWith(ctx, d.conn.Client)
		if err == nil && len(resp.Groups) != 1 {
			return 0, fmt.Errorf("%d answers about group %s", len(resp.Groups), group)
		}
		if err == nil {
			err = kerr.ErrorForCode(resp.Groups[0].ErrorCode)
		}
		if err == nil {
			return resp.Groups[0].AuthorizedOperations, nil
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

// mayTransact asks whether the user may use a transactional id, which need not
// have been used. kerr.TransactionalIDAuthorizationFailed says no; nil also says
// that the broker does not tell.
func (d *checks) mayTransact(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, groupFor)
	defer cancel()
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	resp, err := req.RequestWith(ctx, d.conn.Client)
	if err == nil && len(resp.TransactionStates) == 1 {
		err = kerr.ErrorForCode(resp.TransactionStates[0].ErrorCode)
	}
	if errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		return err
	}
	return nil
}
