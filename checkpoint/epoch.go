package checkpoint

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/cespare/xxhash/v2"
)

// epoch is the content of the file EPOCH: the claim of the only writer. The token
// distinguishes claims with the same number, which can exist if EPOCH was damaged
// or restored from a backup. The id is the directory's, the same in all claims.
// Both are random, but not state: nothing that is learned depends on them.
type epoch struct {
	number uint64
	token  string
	id     string
}

const epochFile = "EPOCH"

// EpochError says that the file that names the writer of a directory, or the
// directory itself, is missing or damaged, although the directory is in use. It is
// also an ErrFenced: a Store that has claimed the directory stores nothing more.
type EpochError struct {
	Path    string
	Damaged bool // the file exists
}

func (e *EpochError) Error() string {
	what := "missing"
	if e.Damaged {
		what = "damaged"
	}
	return fmt.Sprintf("checkpoint: %s is %s; it names the only process that may write to the directory, and identifies the directory as the source of its models", e.Path, what)
}

// Is implements the interface of errors.Is.
func (e *EpochError) Is(target error) bool { return target == ErrFenced }

func (e epoch) String() string {
	line := fmt.Sprintf("epoch %d token %s id %s", e.number, e.token, e.id)
	return fmt.Sprintf("%s xxh64 %016x\n", line, xxhash.Sum64String(line))
}

func parseEpoch(text string) (e epoch, ok bool) {
	_, err := fmt.Sscanf(text, "epoch %d token %s id %s", &e.number, &e.token, &e.id)
	return e, err == nil && e.String() == text
}

// readEpoch returns the current claim. ok is false if none can be read; damaged
// says that there is a file nevertheless.
func (s *Store) readEpoch() (e epoch, ok, damaged bool, err error) {
	f, size, err := s.fs.Open(s.path(epochFile))
	if errors.Is(err, fs.ErrNotExist) {
		return e, false, false, nil
	}
	if err != nil {
		return e, false, false, fmt.Errorf("checkpoint: cannot read the epoch: %w", err)
	}
	defer f.Close()
	text := make([]byte, min(size, 256))
	if _, err := io.ReadFull(f, text); err != nil {
		return e, false, true, nil
	}
	if e, ok = parseEpoch(string(text)); !ok {
		return epoch{}, false, true, nil
	}
	return e, true, false, nil
}

// Claim makes this Store the only one that can save to the directory and returns
// the new epoch, 1 more than the last. It creates the directory if necessary. From
// then on Save fails in every Store, in any process, that claimed the directory
// before. Claim first, then Load: in the other order, a writer that is about to be
// fenced could still add a snapshot after the Load.
func (s *Store) Claim(ctx context.Context) (uint64, error) { return s.ClaimAbove(ctx, 0) }

// ClaimAbove is Claim with an epoch larger than above.
func (s *Store) ClaimAbove(ctx context.Context, above uint64) (uint64, error) {
	if above == math.MaxUint64 {
		return 0, fmt.Errorf("checkpoint: there is no epoch above %d", above)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := mkdirAll(s.fs, s.dir); err != nil {
		return 0, fmt.Errorf("checkpoint: cannot create the directory: %w", err)
	}
	err := s.locked(ctx, func() error {
		last, _, damaged, err := s.readEpoch()
		if err != nil {
			return err
		}
		names, err := s.names()
		if err != nil {
			return err
		}
		// EPOCH may have been lost or restored from a backup, while snapshots of
		// later claims exist. The new epoch must exceed those, too, or their
		// writers would not be fenced and Load would prefer their files.
		next := uint64(1)
		for _, n := range names {
			last.number = max(last.number, n.epoch)
			next = max(next, n.seq+1)
		}
		if damaged || last.id == "" && len(names) > 0 {
			lost := &EpochError{s.path(epochFile), damaged}
			s.opts.Log.Warn("continuing from the names of the snapshots, as a new directory", "err", lost, "epoch", last.number)
		}
		claim := epoch{max(last.number, above) + 1, identity(), cmp.Or(last.id, identity())}
		if err := s.writeEpoch(claim); err != nil {
			return err
		}
		s.next = next
		s.current.Store(&claim)
		s.removeTemps()
		return nil
	})
	if err != nil {
		return 0, err
	}
	return s.Epoch(), nil
}

// identity returns a random name that nothing else has.
func identity() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Epoch returns the claimed epoch, 0 before Claim. It never waits for a Save.
func (s *Store) Epoch() uint64 {
	if c := s.current.Load(); c != nil {
		return c.number
	}
	return 0
}

// ID returns the directory's identity, "" before Claim. Copies of the directory
// have the same.
func (s *Store) ID() string {
	if c := s.current.Load(); c != nil {
		return c.id
	}
	return ""
}

// Last returns the directory's identity and the latest epoch claimed by any
// process: "" and 0 if nobody has claimed it. If there are snapshots or an EPOCH
// file but the claim is unknown, it also returns an *EpochError.
func (s *Store) Last() (id string, epoch uint64, err error) {
	e, ok, damaged, err := s.readEpoch()
	if ok || err != nil {
		return e.id, e.number, err
	}
	names, err := s.names()
	if err == nil && (damaged || len(names) > 0) {
		err = &EpochError{s.path(epochFile), damaged}
	}
	return "", 0, err
}

// Check returns an error wrapping ErrFenced if another process has claimed the
// directory since Claim.
func (s *Store) Check() error {
	c := s.current.Load()
	if c == nil {
		return errors.New("checkpoint: the directory has not been claimed")
	}
	return s.check(*c)
}

func (s *Store) writeEpoch(e epoch) error {
	fail := func(err error) error { return fmt.Errorf("checkpoint: cannot claim the directory: %w", err) }
	// Like a snapshot, the claim is replaced in one step: written, synced, renamed,
	// and the directory synced. A claim that a power cut could undo would let two
	// writers in.
	temp := tempPrefix + epochFile
	s.remove(temp)
	f, err := s.fs.Create(s.path(temp))
	if err != nil {
		return fail(err)
	}
	_, err = io.WriteString(f, e.String())
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = s.fs.Rename(s.path(temp), s.path(epochFile))
	}
	if err != nil {
		s.remove(temp)
		return fail(err)
	}
	if err := s.fs.SyncDir(s.dir); err != nil {
		return fail(err)
	}
	return nil
}

// check returns ErrFenced unless the claim in force is claim.
func (s *Store) check(claim epoch) error {
	e, ok, damaged, err := s.readEpoch()
	switch {
	case err != nil:
		return err
	case !ok:
		return &EpochError{s.path(epochFile), damaged}
	case e != claim:
		return fmt.Errorf("%w (epoch %d, now %d)", ErrFenced, claim.number, e.number)
	}
	return nil
}
