package main

import (
	"errors"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// Tests shorten these.
var (
	// transactionTimeout is how long the transaction of a dead process can hold up
	// readers of its partitions.
	transactionTimeout = 20 * time.Second
	// sessionTimeout is how long a process may be silent before others get its
	// partitions. With the protocol consumer, the brokers' setting applies instead.
	sessionTimeout = 10 * time.Second
)

// sessionFlags say how a member of a consumer group works.
type sessionFlags struct {
	instance, protocol, rack string
	batch                    int
	interval                 time.Duration
}

func (o *sessionFlags) define(f *cli.Flags) {
	f.Group("Group", func() {
		f.StringVar(&o.instance, "instance", "", "static member: `NAME` that this process alone has in the --group, to get its partitions back when it is restarted soon")
		f.Choice(&o.protocol, "group-protocol", "classic", []string{"classic", "consumer"}, "who shares partitions out: a member, or the brokers (KIP-848, Apache Kafka 4.0 and later)")
		f.StringVar(&o.rack, "rack", "", "rack or availability `ZONE` of this process, to read from replicas there")
		f.IntVar(&o.batch, "batch", 10000, "most records in a transaction")
		f.DurationVar(&o.interval, "commit-interval", 200*time.Millisecond, "longest time that a transaction collects records")
	})
}

// sessionNames are the flags' names.
var sessionNames = []string{"instance", "group-protocol", "rack", "batch", "commit-interval"}

// options returns the options of a session of the group; o says what it reads.
func (s *sessionFlags) options(c *cli.Call, cfg kafkaio.Config, o *sourceFlags) (kafkaio.SessionOptions, error) {
	read, err := o.options(c, cfg, nil)
	if err != nil {
		return kafkaio.SessionOptions{}, err
	}
	for name, bad := range map[string]bool{
		"batch": s.batch < 1, "commit-interval": s.interval <= 0,
	} {
		if bad {
			return kafkaio.SessionOptions{}, c.Bad(name, errors.New("it is too small"))
		}
	}
	so := kafkaio.SessionOptions{
		Config: cfg, Topics: o.topics, Group: o.group, Instance: s.instance, Start: read.Start, StartTime: read.StartTime,
		MaxRecords: s.batch, MaxWait: s.interval, TransactionTimeout: transactionTimeout, SessionTimeout: sessionTimeout,
		Server: s.protocol == "consumer", Rack: s.rack, TopicWait: o.wait,
	}
	if err := so.Validate(); err != nil {
		return so, cli.Fail(cli.Usage, err)
	}
	return so, nil
}
