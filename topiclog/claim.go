package topiclog

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/stream"
)

// Claim names the writer of a log.
type Claim struct {
	// Epoch is larger than the epochs of earlier claims. 0: no claim.
	Epoch uint64
	// Owner is the identity of the written state, such as a directory of checkpoints:
	// processes that continue from the same checkpoints have the same Owner. It is
	// empty if the claim has been given up, or if the log was written by a version
	// of the program that made no claims.
	Owner string
	// By names the process for people, At is when it began.
	By string
	At time.Time
	// Token distinguishes two claims with the same epoch, and Writer is the transactional
	// id used for writing. Only claims on checkpoints have them.
	Token, Writer string
}

// Foreign reports whether a log with this claim does not come from owner, whose own
// epochs end at epoch: it has another owner, or a copy of this one that has
// continued.
func (c Claim) Foreign(owner string, epoch uint64) bool {
	return c.Owner != "" && (c.Owner != owner || c.Epoch > epoch)
}

// Process describes this process to people.
func Process() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s process %d", host, os.Getpid())
}

// FencedError says that another process writes a log. It is checkpoint.ErrFenced.
type FencedError struct {
	Topic string
	Name  string // of the log, such as "model clicks"
	Claim Claim  // the newest
	Own   uint64 // epoch; 0: none has been claimed
}

func (e *FencedError) Error() string {
	own := ""
	if e.Own > 0 {
		own = fmt.Sprintf(", this is epoch %d", e.Own)
	}
	return fmt.Sprintf("another trainer has taken over %s on topic %s: %s, epoch %d, since %s%s", e.Name, e.Topic, e.Claim.By, e.Claim.Epoch,
		e.Claim.At.Format(time.RFC3339), own)
}

// Is implements the interface of errors.Is.
func (e *FencedError) Is(target error) bool { return target == checkpoint.ErrFenced }

// Saw records a claim; Fold calls it for each. unreadable says why the claim cannot be read.
func (l *Log) Saw(c Claim, unreadable error) { l.newest, l.unreadable = c, unreadable }

// Newest returns the newest claim that has been scanned or written; it is zero if there
// is none.
func (l *Log) Newest() Claim { return l.newest }

// Own returns the claim that this Log has made.
func (l *Log) Own() Claim { return l.own }

// Claim writes rec, which holds c, and makes this Log the owner. If another process has
// claimed the log since the last scan, replace decides: nil claims it nevertheless. A
// nil replace stands for one that never does, and gives a *FencedError.
func (l *Log) Claim(ctx context.Context, c Claim, rec stream.Record, replace func() error) error {
	before := l.newest
	e := Entry{Log: l, Records: []stream.Record{rec}, Check: func() (bool, error) {
		switch {
		case l.newest == c:
			return true, nil
		case l.newest == before:
			return false, nil
		case replace == nil:
			return false, l.fenced()
		}
		return false, replace()
	}}
	if l.Writer.Held() { // perhaps since before the last scan
		if _, err := check(ctx, l.Writer, []Entry{e}); err != nil {
			return err
		}
	}
	if err := Append(ctx, e); err != nil {
		return err
	}
	l.newest, l.own = c, c
	return nil
}

// Fenced returns a *FencedError if, as far as the log has been scanned, another process
// has claimed it since.
func (l *Log) Fenced() error {
	if l.newest == l.own {
		return nil
	}
	return l.fenced()
}

func (l *Log) fenced() error {
	return &FencedError{Topic: l.Topics[0], Name: l.Name, Claim: l.newest, Own: l.own.Epoch}
}

// Check is like Fenced, but for the present. While the id is held it asks the brokers who
// holds it, and reads nothing. Otherwise, or if they do not say, it scans, and waits for the
// brokers until ctx ends. It changes nothing in the topic.
func (l *Log) Check(ctx context.Context) error {
	if lost, err := l.Writer.Lost(ctx); err == nil && !lost {
		return nil
	}
	if err := l.Scan(ctx); err != nil {
		return err
	}
	return l.Fenced()
}
