package stream

import (
	"context"
	"time"
)

// UpdateKind says how to read an Update's payload.
type UpdateKind string

const (
	// Full: the payload is the whole encoded predictor.
	Full UpdateKind = "full"
	// Delta: the payload patches the predictor of version Base.
	Delta UpdateKind = "delta"
)

// Update is one version of a model in the model topic.
type Update struct {
	Kind UpdateKind
	// Model is the name under which the model is published.
	Model string
	// Learner is the registered name of the algorithm.
	Learner string
	// Version increases by at least 1 with every update of a model, across restarts
	// too.
	Version uint64
	// Base is the version that a Delta applies to, 0 for a Full.
	Base uint64
	// Epoch is the trainer's fencing epoch. An update with a smaller epoch than one
	// seen before comes from a trainer that has been replaced.
	Epoch uint64
	// Step is the learner's iteration count, Examples the number of examples it
	// has learned from.
	Step, Examples uint64
	// Offsets are the positions up to which the model has learned.
	Offsets Offsets
	Created time.Time
	// Evaluation has measures taken at publication, in a fixed order, e.g.
	// prequential accuracy, objective, duality gap.
	Evaluation []Measure
	// Hash is the xxh64 of Payload.
	Hash    uint64
	Payload []byte
}

// Measure is a named number.
type Measure struct {
	Name  string
	Value float64
}

// Publisher sends updates. Publish returns when the update is durable. Sending the
// same update again is harmless.
type Publisher interface {
	Publish(ctx context.Context, u *Update) error
	Close() error
}

// Subscriber receives updates.
type Subscriber interface {
	// Next blocks until there is a newer update that is complete and verified, and
	// returns it. It may skip to the newest full update. Deltas are already
	// applied: the kind of the result is always Full.
	Next(ctx context.Context) (*Update, error)
	Close() error
}

// Promoter points an alias of a model, such as "champion", to versions of it.
// Subscribers can follow an alias instead of the newest version.
type Promoter interface {
	// Promote points the alias to u, a Full of the bare model, and keeps the version
	// before for a rollback. It returns when that is durable. Promoting the version
	// that the alias already points to changes nothing.
	Promote(ctx context.Context, u *Update, why Promotion) error
}

// Promotion says why an alias points to a version.
type Promotion struct {
	// By names who decided, Reason why.
	By, Reason string
	// Previous is the version that the alias pointed to before, 0 for none.
	Previous uint64
}
