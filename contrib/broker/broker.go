// Package broker embeds a Kafka-compatible broker in the process, for the demo, for
// trying things out, and for tests.
//
// It is franz-go's kfake: one process, no replication, no throttling. It is not
// Apache Kafka and should not hold data that matters. Records are kept forever
// unless a topic's retention.ms says otherwise.
package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// AddrError says that no broker can listen at an address, on any machine.
type AddrError struct {
	Addr string
	Err  error
}

func (e *AddrError) Error() string { return fmt.Sprintf("broker: address %q: %v", e.Addr, e.Err) }

// Options are the options of Start. The zero value gives a random loopback port and
// a log in memory.
type Options struct {
	// Addr is the host:port to listen on; empty is "127.0.0.1:0". The host must be
	// a loopback address, because the broker has no authentication. Port 0 picks a
	// free port.
	Addr string
	// DataDir keeps topics, records and group offsets across restarts, even after
	// SIGKILL, which aborts open transactions. It is created if absent. Empty keeps
	// the log in memory.
	DataDir string
	// Log receives the broker's errors and warnings; nil discards them.
	Log *slog.Logger
	// AutoCreate creates topics like Apache Kafka's auto.create.topics.enable, which is on
	// there by default: with one partition, when a client that wants to write or read
	// them requests their metadata.
	AutoCreate bool
	// TLS, if not nil, encrypts connections.
	TLS *tls.Config
	// Listen and Dial, if not nil, replace the operating system's network.
	Listen func(network, address string) (net.Listener, error)
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	// More holds further options of the broker.
	More []kfake.Opt
}

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	addr    string
	dir     string
}

// Start starts a broker.
func Start(o Options) (*Broker, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	host, portText, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return nil, &AddrError{o.Addr, err}
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, &AddrError{o.Addr, err}
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, &AddrError{o.Addr, errors.New("not a loopback address")}
	}
	// Kafka's Java admin client 3.9 fails on kfake's responses to DescribeTopicPartitions, whose
	// lists of eligible leaders are null. It requests Metadata if that is not offered.
	offered := kversion.Stable()
	offered.SetMaxKeyVersion(int16(kmsg.DescribeTopicPartitions), -1)
	opts := []kfake.Opt{
		kfake.MaxVersions(offered),
		kfake.NumBrokers(1), kfake.DefaultNumPartitions(1), // as Apache Kafka's default
		kfake.Ports(int(port)),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			if o.Listen != nil {
				return o.Listen(network, address)
			}
			return net.Listen(network, net.JoinHostPort(host, portText))
		}),
		kfake.BrokerConfigs(map[string]string{
			"log.cleaner.backoff.ms":       "10000",
			"group.min.session.timeout.ms": "1000",
			// Replayed streams keep their original timestamps, which may be years
			// old; and kfake applies retention to compacted topics, too.
			"log.retention.ms": "-1",
		}),
	}
	if o.DataDir != "" {
		opts = append(opts, kfake.DataDir(o.DataDir))
	}
	if o.TLS != nil {
		opts = append(opts, kfake.TLS(o.TLS))
	}
	if o.Log != nil {
		opts = append(opts, kfake.WithLogger(logger{o.Log}))
	}
	killed := false
	if o.DataDir != "" {
		if killed, err = wasKilled(o.DataDir); err != nil {
			return nil, fmt.Errorf("broker: %w", err)
		}
	}
	c, err := kfake.NewCluster(append(opts, o.More...)...)
	if err != nil {
		return nil, fmt.Errorf("broker: cannot listen on %s: %w", o.Addr, err)
	}
	b := &Broker{cluster: c, addr: c.ListenAddrs()[0], dir: o.DataDir}
	if killed {
		if err := b.endTransactions(o); err != nil {
			c.Close() // not b: open transactions must stay open for the next start
			return nil, fmt.Errorf("broker: ending the transactions that were open: %w", err)
		}
	}
	if o.AutoCreate {
		c.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			b.autoCreate(req.(*kmsg.MetadataRequest))
			return nil, nil, false
		})
	}
	return b, nil
}

// topicName matches the names that Apache Kafka allows, and "." and "..".
var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// autoCreate creates the topics that a request names, if the request allows that. kfake
// has an option for this, but forgets topics created by it when it is killed.
func (b *Broker) autoCreate(req *kmsg.MetadataRequest) {
	if req.Version >= 4 && !req.AllowAutoTopicCreation { // older requests always allow it
		return
	}
	for _, t := range req.Topics {
		if t.Topic == nil || !topicName.MatchString(*t.Topic) || *t.Topic == "." || *t.Topic == ".." {
			continue
		}
		// The response to the request reports the fault of a topic.
		_ = b.cluster.CreateTopic(*t.Topic, 0, nil)
	}
}

// Addr returns the host:port that the broker listens on.
func (b *Broker) Addr() string { return b.addr }

// Close stops the broker and, with a DataDir, writes all unwritten data.
func (b *Broker) Close() {
	b.cluster.Close()
	if b.dir != "" {
		_ = os.WriteFile(filepath.Join(b.dir, closedFile), nil, 0o666) // otherwise the next start looks for open transactions
	}
}

// Cluster returns the kfake cluster, for tests that disturb it.
func (b *Broker) Cluster() *kfake.Cluster { return b.cluster }

// Compact compacts the compacted topics now.
func (b *Broker) Compact() { b.cluster.Compact() }

// logger forwards warnings and errors; the rest is about every single request.
type logger struct{ log *slog.Logger }

func (l logger) Logf(level kfake.LogLevel, format string, args ...any) {
	switch level {
	case kfake.LogLevelError:
		l.log.Error("broker: " + fmt.Sprintf(format, args...))
	case kfake.LogLevelWarn:
		l.log.Warn("broker: " + fmt.Sprintf(format, args...))
	}
}
