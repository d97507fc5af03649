package topiclog

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// stateScheme precedes the name of a topic in place of a directory of checkpoints.
const stateScheme = "kafka://"

// StateURL returns kafka://TOPIC.
func StateURL(topic string) string { return stateScheme + topic }

// StateTopic returns the topic of kafka://TOPIC; ok is false if place is something else,
// such as a directory.
func StateTopic(place string) (topic string, ok bool) { return strings.CutPrefix(place, stateScheme) }

// OpenStates opens checkpoints in a topic. Importing package contrib/statetopic sets it;
// otherwise it is nil.
var OpenStates func(ctx context.Context, o StateOptions) (States, error)

// ErrUnfit is wrapped by the errors about topics that cannot keep checkpoints.
var ErrUnfit = errors.New("the topic cannot keep checkpoints")

// StateOptions are the options of OpenStates.
type StateOptions struct {
	kafkaio.Config
	// Topic is the state topic. It is created, compacted and with one partition, if
	// it does not exist.
	Topic string
	// Name of the state, which is the name of its model. States can share a topic.
	Name string
	// ID is the transactional id, which all writers of the state share. With a model
	// topic it is modeltopic.TransactionalID, so that both are written in one
	// transaction; empty stands for an id made of Topic and Name.
	ID string
	// MaxRecordBytes bounds a record; 0 is 900 KiB.
	MaxRecordBytes int
	// MaxDown is as in kafkaio.SourceOptions.
	MaxDown time.Duration
	// Now is the clock for Header.Created; nil means time.Now.
	Now func() time.Time
}

// States keeps checkpoints in a topic, as checkpoint.Store does in a directory.
type States interface {
	ID() string
	Epoch() uint64
	Last() (id string, epoch uint64, err error)
	Claim(ctx context.Context) (epoch uint64, err error)
	ClaimAbove(ctx context.Context, above uint64) (epoch uint64, err error)
	// Check returns an error if another writer has claimed the state.
	Check(ctx context.Context) error
	Load() (*checkpoint.Snapshot, error)
	Save(ctx context.Context, snap *checkpoint.Snapshot) (place string, err error)
	// SaveWith stores a snapshot together with records and entries of other logs, in one
	// transaction.
	SaveWith(ctx context.Context, snap *checkpoint.Snapshot, along []stream.Record, others ...Entry) (place string, err error)
	// Writer returns the Writer of the States, so that others can write in its transactions.
	Writer() Writer
	Close() error
}
