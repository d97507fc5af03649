package checkpoint

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cespare/xxhash/v2"
)

// epoch is the content of the file EPOCH: who may write to the directory. The
// token tells two claims apart that have the same number, which can be where
// EPOCH was damaged or brought back from a backup. It is an identity, not
// state: nothing that is learned depends on it.
type epoch struct {
	number uint64
	token  string
}

const epochFile = "EPOCH"

func (e epoch) String() string {
	line := fmt.Sprintf("epoch %d token %s", e.number, e.token)
	return fmt.Sprintf("%s xxh64 %016x\n", line, xxhash.Sum64String(line))
}

func parseEpoch(text string) (e epoch, ok bool) {
	_, err := fmt.Sscanf(text, "epoch %d token %s", &e.number, &e.token)
	return e, err == nil && e.String() == text
}

// readEpoch returns the claim in force; ok is false where there is none that
// can be read, and damaged says that there is a file nevertheless.
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
	e, ok = parseEpoch(string(text))
	return e, ok, !ok, nil
}

// Claim makes this Store the only one that can save to the directory, which it
// creates if need be, and returns the new epoch: 1 more than the last. From
// then on Save fails in every Store that claimed the directory before, in
// whatever process. Claim first, then Load: in the other order a writer that
// is about to be fenced could still add a snapshot after the Load.
func (s *Store) Claim(ctx context.Context) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := mkdirAll(s.fs, s.dir); err != nil {
		return 0, fmt.Errorf("checkpoint: cannot create the directory: %w", err)
	}
	err := s.locked(ctx, func() error {
		last, ok, damaged, err := s.readEpoch()
		if err != nil {
			return err
		}
		if !ok {
			last = epoch{}
		}
		names, err := s.names()
		if err != nil {
			return err
		}
		next := uint64(1)
		for _, n := range names {
			last.number = max(last.number, n.epoch)
			next = max(next, n.seq+1)
		}
		if damaged {
			s.opts.Log.Warn("epoch file is damaged, going on from the snapshots' names", "path", s.path(epochFile), "epoch", last.number)
		}
		var token [16]byte
		rand.Read(token[:]) // never fails
		claim := epoch{last.number + 1, hex.EncodeToString(token[:])}
		if err := s.writeEpoch(claim); err != nil {
			return err
		}
		s.claim, s.next = claim, next
		s.number.Store(claim.number)
		s.removeTemps()
		return nil
	})
	if err != nil {
		return 0, err
	}
	return s.claim.number, nil
}

// Epoch returns the epoch claimed, or 0. It never waits for a Save.
func (s *Store) Epoch() uint64 { return s.number.Load() }

func (s *Store) writeEpoch(e epoch) error {
	fail := func(err error) error { return fmt.Errorf("checkpoint: cannot claim the directory: %w", err) }
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

// checkEpoch returns ErrFenced unless the claim in force is this Store's. The
// caller holds the lock.
func (s *Store) checkEpoch() error {
	e, ok, _, err := s.readEpoch()
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%w (epoch %d: the file %s is missing or damaged)", ErrFenced, s.claim.number, s.path(epochFile))
	case e != s.claim:
		return fmt.Errorf("%w (epoch %d, now %d)", ErrFenced, s.claim.number, e.number)
	}
	return nil
}
