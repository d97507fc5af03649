package modeltopic

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/topiclog"
)

// AliasOptions are the options of NewAliasWriter.
type AliasOptions struct {
	kafkaio.Config
	// Topic is the model topic, which must exist.
	Topic string
	// Model and Alias are the names of the model and of the alias.
	Model, Alias string
	// MaxRecordBytes and MaxDown are as in PublisherOptions.
	MaxRecordBytes int
	MaxDown        time.Duration
	// SigningKey, if not nil, signs promotions. An update is signed again under
	// another name only if it has a signature by one of TrustedKeys or by
	// SigningKey.
	SigningKey  ed25519.PrivateKey
	TrustedKeys []ed25519.PublicKey
	// Expect, if not nil, is the version to which the alias must point for a promotion
	// of another one; 0 is none.
	Expect *uint64
	// Owner, if not nil, returns an error if the promoting process has been replaced. It
	// is called before anything is written, when no other writer of the alias can
	// intervene.
	Owner func(ctx context.Context) error
}

// ExpectError says that an alias points to another version than expected. Nothing
// has been written.
type ExpectError struct {
	Name      string // of the alias in the topic
	Has, Want uint64 // versions; 0 is none
}

func (e *ExpectError) Error() string {
	has := fmt.Sprintf("stands for version %d", e.Has)
	if e.Has == 0 {
		has = "does not stand for any version yet"
	}
	return fmt.Sprintf("kafka: %s %s, not for the expected %d: somebody else has promoted; nothing is changed", e.Name, has, e.Want)
}

// PromoteError says why nothing can be promoted to an alias. Nothing has been
// written.
type PromoteError struct {
	Name string // of the alias in the topic
	Why  string
}

func (e *PromoteError) Error() string { return "kafka: " + e.Name + " " + e.Why }

// AliasWriter points one alias of a model to versions of it. It implements
// stream.Promoter. Only one goroutine may use it at a time.
//
// The target and the previous target are written in one transaction. There is no
// claim: a promotion takes the transactional id, and continues from the epochs in
// the topic. Of two concurrent promotions the later wins, and keeps the other's
// version as the previous target.
type AliasWriter struct {
	opt         AliasOptions
	log         topiclog.Log
	now, before slot
}

var _ stream.Promoter = (*AliasWriter)(nil)

// NewAliasWriter looks for the topic, and writes nothing.
func NewAliasWriter(ctx context.Context, o AliasOptions) (*AliasWriter, error) {
	name := AliasName(o.Model, o.Alias)
	if err := errors.Join(CheckModel(o.Model), CheckAlias(o.Alias), CheckName(name+before), checkKeys(o.SigningKey, o.TrustedKeys)); err != nil {
		return nil, err
	}
	if o.Topic == "" || o.MaxRecordBytes < 0 {
		return nil, errors.New("kafka alias: no topic given, or a negative limit")
	}
	o.MaxRecordBytes = cmp.Or(o.MaxRecordBytes, 900<<10)
	partitions, err := topiclog.Partitions(ctx, o.Config, o.Topic, o.MaxDown)
	if err != nil {
		return nil, err
	}
	t, err := topiclog.NewWriter(kafkaio.TransactorOptions{
		Config: o.Config, ID: TransactionalID(o.Topic, name), MaxDown: o.MaxDown, BatchBytes: o.MaxRecordBytes,
	})
	if err != nil {
		return nil, err
	}
	slotOf := func(name string) slot {
		return slot{assembler{model: name, limit: maxPayload}, newEncoder(o.Topic, name, partitions, o.MaxRecordBytes)}
	}
	w := &AliasWriter{opt: o, now: slotOf(name), before: slotOf(name + before)}
	w.log = topiclog.Log{Topics: []string{o.Topic}, Name: "alias " + name, Writer: t, Fold: func(r *stream.Record) bool {
		return w.now.fold(r) || w.before.fold(r)
	}}
	return w, nil
}

// Promote implements stream.Promoter. The previous target is read from the topic:
// why.Previous is ignored. It fails with an *ExpectError if the alias does not
// point to the version in AliasOptions.Expect.
func (w *AliasWriter) Promote(ctx context.Context, u *stream.Update, why stream.Promotion) error {
	switch {
	case u.Model != w.opt.Model || u.Kind != stream.Full:
		return fmt.Errorf("kafka: a %s of model %q given to the promoter of %q, which takes fulls", u.Kind, u.Model, w.opt.Model)
	case len(why.By) > maxReason || len(why.Reason) > maxReason:
		return fmt.Errorf("kafka: a reason, or a name of who promotes, of more than %d bytes", maxReason)
	}
	if err := w.log.Scan(ctx); err != nil {
		return err
	}
	return w.promote(ctx, u, why)
}

// Rollback points the alias to its previous target, which it returns, and keeps the
// present one as the previous target: a second rollback undoes the
// first.
func (w *AliasWriter) Rollback(ctx context.Context, why stream.Promotion) (*stream.Update, error) {
	if err := w.log.Scan(ctx); err != nil {
		return nil, err
	}
	old := &w.before
	switch {
	case w.now.cur == nil:
		return nil, &PromoteError{w.now.model, "stands for no version: there is nothing to go back to; promote one first"}
	case old.cur == nil:
		return nil, &PromoteError{w.now.model, fmt.Sprintf("has stood for version %d only: there is nothing to go back to before it is promoted to another version", w.now.cur.Version)}
	}
	if w.opt.SigningKey != nil && !w.trusts(old) {
		return nil, &PromoteError{old.model, fmt.Sprintf("is version %d without a trusted signature, so it is not signed again; promote a version by its number", old.cur.Version)}
	}
	u := *old.cur
	u.Model = w.opt.Model
	return &u, w.promote(ctx, &u, why)
}

// Delete deletes the target and the previous target of the alias, or if version is not 0
// only those of the two with this version.
func (w *AliasWriter) Delete(ctx context.Context, version uint64) error {
	if err := w.log.Scan(ctx); err != nil {
		return err
	}
	var prefixes []string
	for _, s := range []*slot{&w.now, &w.before} {
		if s.cur != nil && (version == 0 || s.cur.Version == version) {
			prefixes = append(prefixes, s.model+"/full/")
		}
	}
	recs := w.log.Replace(nil, prefixes...)
	if len(recs) == 0 {
		return nil
	}
	moved := w.moves()
	return topiclog.Append(ctx, topiclog.Entry{Log: &w.log, Records: recs, Check: func() (bool, error) {
		if moved() {
			return false, errMoved
		}
		return false, nil
	}})
}

// Held returns the target and the previous target of the alias, under the names that
// they have in the topic; nil is nothing.
func (w *AliasWriter) Held(ctx context.Context) (now, before *stream.Update, err error) {
	err = w.log.Scan(ctx)
	return w.now.cur, w.before.cur, err
}

// Undo aborts a promotion that another writer of the alias has begun and not
// committed. If that writer has died, readers of the topic no longer wait for it; if it
// is alive, it promotes again.
func (w *AliasWriter) Undo(ctx context.Context) error { return w.log.Writer.Take(ctx) }

// Close closes the connections of the AliasWriter.
func (w *AliasWriter) Close() error { return w.log.Writer.Close() }

// slot is one of the two names that an alias has in the topic.
type slot struct {
	assembler
	enc encoder
}

// fold processes a record of the topic. It drops unusable records, as subscribers
// do.
func (s *slot) fold(r *stream.Record) bool {
	if !bytes.HasPrefix(r.Key, []byte(s.model+"/")) {
		return false
	}
	_, _ = s.add(r)
	return true
}

// put returns the records that put u into a slot.
func (w *AliasWriter) put(s *slot, u *stream.Update, epoch uint64, about about, key ed25519.PrivateKey) ([]stream.Record, error) {
	renamed := *u
	renamed.Model, renamed.Epoch = s.model, epoch
	s.enc.key = key
	recs, err := s.enc.update(&renamed, about.headers()...)
	if err != nil {
		return nil, err
	}
	for i := range recs {
		recs[i].Time = about.at
	}
	return w.log.Replace(recs, s.enc.replaced()...), nil
}

// epoch counts the promotions so far.
func (w *AliasWriter) epoch() uint64 { return max(w.now.epoch, w.before.epoch) }

// holds reports whether the alias already points to u.
func (w *AliasWriter) holds(u *stream.Update) bool {
	cur := w.now.cur
	return cur != nil && cur.Version == u.Version && cur.Hash == u.Hash && bytes.Equal(cur.Payload, u.Payload)
}

// trusts reports whether the content of a slot is signed by a trusted key or by the
// SigningKey.
func (w *AliasWriter) trusts(s *slot) bool {
	keys := slices.Clone(w.opt.TrustedKeys)
	if w.opt.SigningKey != nil {
		keys = append(keys, w.opt.SigningKey.Public().(ed25519.PublicKey))
	}
	e := envelope{Update: *s.cur, size: uint64(len(s.cur.Payload))}
	return e.verify(s.cur.Payload, s.about.signature, keys) == nil
}

// moves returns a function that reports whether the content of the topic has changed
// since. The epoch alone is not enough: a scan may end between two records of a
// promotion.
func (w *AliasWriter) moves() func() bool {
	epoch, now, before := w.epoch(), w.now.cur, w.before.cur
	return func() bool { return w.epoch() != epoch || w.now.cur != now || w.before.cur != before }
}

// errMoved says that another process has promoted meanwhile.
var errMoved = errors.New("the alias has been moved")

// promote points the alias to u. The topic has just been scanned.
func (w *AliasWriter) promote(ctx context.Context, u *stream.Update, why stream.Promotion) error {
	for {
		moved := w.moves()
		cur, had := w.now.cur, uint64(0)
		if cur != nil {
			had = cur.Version
		}
		again := w.holds(u) // only the signature may change
		if again && (w.opt.SigningKey == nil || w.trusts(&w.now)) {
			return nil
		}
		if want := w.opt.Expect; want != nil && *want != had {
			return &ExpectError{Name: w.now.model, Has: had, Want: *want}
		}
		if cur != nil && w.now.about.signature != "" && w.opt.SigningKey == nil {
			return &PromoteError{w.now.model, fmt.Sprintf("is signed, with key %s: subscribers that trust keys would refuse what is promoted without a signing key", signedBy(w.now.about.signature))}
		}
		epoch := w.epoch()
		if epoch+1 == 0 {
			return &PromoteError{w.now.model, "has an epoch that cannot grow any more"}
		}
		if why.Previous = had; again {
			why.Previous = w.now.about.promotion.Previous
		}
		recs, err := w.put(&w.now, u, epoch+1, about{promotion: why, at: time.Now().Truncate(time.Millisecond)}, w.opt.SigningKey)
		if err == nil && cur != nil && !again {
			key := w.opt.SigningKey
			if key != nil && !w.trusts(&w.now) {
				key = nil // its signature proves nothing
			}
			var old []stream.Record
			old, err = w.put(&w.before, cur, epoch+1, w.now.about, key)
			recs = append(recs, old...)
		}
		if err != nil {
			return err
		}
		err = topiclog.Append(ctx, topiclog.Entry{Log: &w.log, Records: recs, Check: func() (bool, error) {
			if w.opt.Owner != nil {
				if err := w.opt.Owner(ctx); err != nil {
					return false, err
				}
			}
			switch {
			case !moved():
				return false, nil
			case w.holds(u):
				return true, nil
			}
			return false, errMoved
		}})
		if !errors.Is(err, errMoved) {
			if err == nil && w.log.Writer.Held() {
				_ = w.log.Scan(ctx) // it is there, whatever the error: now it can be read
			}
			return err
		}
	}
}
