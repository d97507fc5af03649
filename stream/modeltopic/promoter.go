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

// PromoterOptions of NewPromoter.
type PromoterOptions struct {
	kafkaio.Config
	// Topic is the model topic, which must exist.
	Topic string
	// Model is the name of the model.
	Model string
	// MaxRecordBytes and MaxDown are as in PublisherOptions.
	MaxRecordBytes int
	MaxDown        time.Duration
	// SigningKey, if not nil, signs what is promoted. TrustedKeys are those of
	// which an update must have a signature, or one of SigningKey's, to be signed
	// again under another name.
	SigningKey  ed25519.PrivateKey
	TrustedKeys []ed25519.PublicKey
	// Expect, if not nil, is the version for which an alias must stand if
	// something else is to be promoted to it; 0 is none.
	Expect *uint64
}

// ExpectError says that an alias stands for another version than was expected.
// Nothing has been written.
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

// Promoter gives versions of one model aliases. It implements stream.Promoter
// and is used by one goroutine at a time.
//
// What an alias stands for and what it stood for before are written in one
// transaction, under a transactional id that all Promoters of the alias share.
// Of two that promote at once the later wins, and keeps the other's as the
// version before.
type Promoter struct {
	opt        PromoterOptions
	partitions int
	aliases    map[string]*aliasWriter
}

var _ stream.Promoter = (*Promoter)(nil)

// NewPromoter looks for the topic.
func NewPromoter(ctx context.Context, o PromoterOptions) (*Promoter, error) {
	if err := errors.Join(CheckModel(o.Model), checkKeys(o.SigningKey, o.TrustedKeys)); err != nil {
		return nil, err
	}
	if o.Topic == "" || o.MaxRecordBytes < 0 {
		return nil, errors.New("kafka promoter: no topic given, or a negative limit")
	}
	o.MaxRecordBytes = cmp.Or(o.MaxRecordBytes, 900<<10)
	n, err := topiclog.Partitions(ctx, o.Config, o.Topic, o.MaxDown)
	if err != nil {
		return nil, err
	}
	return &Promoter{opt: o, partitions: n, aliases: map[string]*aliasWriter{}}, nil
}

// Promote implements stream.Promoter. What the alias stood for before is found
// in the topic: why.Previous does not count. It fails with an *ExpectError if
// the alias does not stand for what PromoterOptions say.
func (p *Promoter) Promote(ctx context.Context, alias string, u *stream.Update, why stream.Promotion) error {
	switch {
	case u.Model != p.opt.Model || u.Kind != stream.Full:
		return fmt.Errorf("kafka: a %s of model %q given to the promoter of %q, which takes fulls", u.Kind, u.Model, p.opt.Model)
	case len(why.By) > maxReason || len(why.Reason) > maxReason:
		return fmt.Errorf("kafka: a reason, or a name of who promotes, of more than %d bytes", maxReason)
	}
	w, err := p.scan(ctx, alias)
	if err != nil {
		return err
	}
	return w.promote(ctx, u, why)
}

// Rollback makes alias stand for what it stood for before, which it returns, and
// keeps what it stands for now as the version before: rolling back twice undoes
// the first.
func (p *Promoter) Rollback(ctx context.Context, alias string, why stream.Promotion) (*stream.Update, error) {
	w, err := p.scan(ctx, alias)
	if err != nil {
		return nil, err
	}
	old := &w.before
	if old.cur == nil {
		return nil, &PromoteError{old.model, "is not in the topic: there is nothing to go back to"}
	}
	if p.opt.SigningKey != nil && !w.trusts(old) {
		return nil, &PromoteError{old.model, fmt.Sprintf("is version %d without a trusted signature, so it is not signed again; promote a version by its number", old.cur.Version)}
	}
	u := *old.cur
	u.Model = p.opt.Model
	return &u, w.promote(ctx, &u, why)
}

// Held returns what alias stands for and what it stood for before, under the
// names that they have in the topic; nil is nothing.
func (p *Promoter) Held(ctx context.Context, alias string) (now, before *stream.Update, err error) {
	w, err := p.scan(ctx, alias)
	if err != nil {
		return nil, nil, err
	}
	return w.now.cur, w.before.cur, nil
}

// Undo aborts a promotion that another Promoter of the alias has begun and not
// committed. If that one has died, readers of the topic no longer wait for it; if it
// lives, it promotes again.
func (p *Promoter) Undo(ctx context.Context, alias string) error {
	w, err := p.writer(alias)
	if err != nil {
		return err
	}
	return w.log.Writer.Take(ctx)
}

// scan reads what the topic holds of an alias.
func (p *Promoter) scan(ctx context.Context, alias string) (*aliasWriter, error) {
	w, err := p.writer(alias)
	if err != nil {
		return nil, err
	}
	return w, w.log.Scan(ctx)
}

func (p *Promoter) writer(alias string) (*aliasWriter, error) {
	if w := p.aliases[alias]; w != nil {
		return w, nil
	}
	name, last := AliasName(p.opt.Model, alias), BeforeName(p.opt.Model, alias)
	if err := cmp.Or(CheckAlias(alias), checkName(last)); err != nil {
		return nil, err
	}
	t, err := topiclog.NewWriter(kafkaio.TransactorOptions{
		Config: p.opt.Config, ID: TransactionalID(p.opt.Topic, name), MaxDown: p.opt.MaxDown, BatchBytes: p.opt.MaxRecordBytes,
	})
	if err != nil {
		return nil, err
	}
	w := &aliasWriter{opt: &p.opt, now: p.slot(name), before: p.slot(last)}
	w.log = topiclog.Log{Topics: []string{p.opt.Topic}, Name: "alias " + name, Writer: t, Fold: func(r *stream.Record) bool {
		return w.now.fold(r) || w.before.fold(r)
	}}
	p.aliases[alias] = w
	return w, nil
}

func (p *Promoter) slot(name string) slot {
	return slot{
		assembler: assembler{model: name, limit: maxPayload},
		enc:       newEncoder(p.opt.Topic, name, p.partitions, p.opt.MaxRecordBytes),
	}
}

// Close gives up what the Promoter holds.
func (p *Promoter) Close() error {
	var errs []error
	for _, w := range p.aliases {
		errs = append(errs, w.log.Writer.Close())
	}
	return errors.Join(errs...)
}

// aliasWriter writes one alias. Its log has no claim: whoever promotes takes the
// transactional id and goes on from the epochs that it finds.
type aliasWriter struct {
	opt         *PromoterOptions
	log         topiclog.Log
	now, before slot
}

// slot is one of the two names that an alias has in the topic.
type slot struct {
	assembler
	enc encoder
}

// fold takes a record of the topic into account. Subscribers drop what is of no use, and
// so does this.
func (s *slot) fold(r *stream.Record) bool {
	if !bytes.HasPrefix(r.Key, []byte(s.model+"/")) {
		return false
	}
	_, _ = s.add(r)
	return true
}

// put returns the records that put u into a slot.
func (w *aliasWriter) put(s *slot, u *stream.Update, epoch uint64, about about, key ed25519.PrivateKey) ([]stream.Record, error) {
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
func (w *aliasWriter) epoch() uint64 { return max(w.now.epoch, w.before.epoch) }

// holds reports whether the alias stands for u.
func (w *aliasWriter) holds(u *stream.Update) bool {
	cur := w.now.cur
	return cur != nil && cur.Version == u.Version && cur.Hash == u.Hash && bytes.Equal(cur.Payload, u.Payload)
}

// trusts reports whether what a slot holds is signed by a trusted key or the own
// one.
func (w *aliasWriter) trusts(s *slot) bool {
	keys := slices.Clone(w.opt.TrustedKeys)
	if w.opt.SigningKey != nil {
		keys = append(keys, w.opt.SigningKey.Public().(ed25519.PublicKey))
	}
	e := envelope{Update: *s.cur, size: uint64(len(s.cur.Payload))}
	return e.verify(s.cur.Payload, s.about.signature, keys) == nil
}

// errMoved says that somebody else has promoted meanwhile.
var errMoved = errors.New("the alias has been moved")

// promote makes the alias stand for u. The topic has just been scanned.
func (w *aliasWriter) promote(ctx context.Context, u *stream.Update, why stream.Promotion) error {
	for {
		cur, had := w.now.cur, uint64(0)
		if cur != nil {
			had = cur.Version
		}
		again := w.holds(u) // it is only to be signed
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
				key = nil // whoever has written it
			}
			var old []stream.Record
			old, err = w.put(&w.before, cur, epoch+1, w.now.about, key)
			recs = append(recs, old...)
		}
		if err != nil {
			return err
		}
		err = topiclog.Append(ctx, topiclog.Entry{Log: &w.log, Records: recs, Check: func() (bool, error) {
			switch {
			case w.epoch() == epoch:
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
