package modeltopic

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// PromoterOptions of NewPromoter.
type PromoterOptions struct {
	kafkaio.Config
	// Topic is the model topic, which must exist.
	Topic string
	// Model is the name of the model.
	Model string
	// MaxRecordBytes, MaxModelBytes and MaxDown are as in PublisherOptions.
	MaxRecordBytes int
	MaxModelBytes  int64
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
	aliases    map[string]*mover
}

var _ stream.Promoter = (*Promoter)(nil)

// NewPromoter looks for the topic.
func NewPromoter(ctx context.Context, o PromoterOptions) (*Promoter, error) {
	if err := errors.Join(CheckModel(o.Model), checkKeys(o.SigningKey, o.TrustedKeys)); err != nil {
		return nil, err
	}
	if o.Topic == "" || o.MaxRecordBytes < 0 || o.MaxModelBytes < 0 {
		return nil, errors.New("kafka promoter: no topic given, or a negative limit")
	}
	o.MaxRecordBytes = cmp.Or(o.MaxRecordBytes, 900<<10)
	o.MaxModelBytes = cmp.Or(o.MaxModelBytes, 1<<30)
	found, err := kafkaio.Partitions(ctx, o.Config, []string{o.Topic}, appear, o.MaxDown)
	if err != nil {
		return nil, err
	}
	return &Promoter{opt: o, partitions: len(found), aliases: map[string]*mover{}}, nil
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
	m, err := p.look(ctx, alias)
	if err != nil {
		return err
	}
	return m.promote(ctx, u, why)
}

// Rollback makes alias stand for what it stood for before, which it returns, and
// keeps what it stands for now as the version before: rolling back twice undoes
// the first.
func (p *Promoter) Rollback(ctx context.Context, alias string, why stream.Promotion) (*stream.Update, error) {
	m, err := p.look(ctx, alias)
	if err != nil {
		return nil, err
	}
	old := &m.before
	if old.a.cur == nil {
		return nil, &PromoteError{old.a.model, "is not in the topic: there is nothing to go back to"}
	}
	if p.opt.SigningKey != nil && !m.trusts(old) {
		return nil, &PromoteError{old.a.model, fmt.Sprintf("is version %d without a trusted signature, so it is not signed again; promote a version by its number", old.a.cur.Version)}
	}
	u := *old.a.cur
	u.Model = p.opt.Model
	return &u, m.promote(ctx, &u, why)
}

// Held returns what alias stands for and what it stood for before, under the
// names that they have in the topic; nil is nothing.
func (p *Promoter) Held(ctx context.Context, alias string) (now, before *stream.Update, err error) {
	m, err := p.look(ctx, alias)
	if err != nil {
		return nil, nil, err
	}
	return m.now.a.cur, m.before.a.cur, nil
}

// Undo undoes what another Promoter of the alias has begun and not ended: if it has
// died, those that read the topic up to its end wait for it no longer. If it lives it
// begins again.
func (p *Promoter) Undo(ctx context.Context, alias string) error {
	m, err := p.mover(alias)
	if err != nil {
		return err
	}
	return m.t.Take(ctx)
}

// look looks at what the topic holds of an alias.
func (p *Promoter) look(ctx context.Context, alias string) (*mover, error) {
	m, err := p.mover(alias)
	if err != nil {
		return nil, err
	}
	return m, m.survey(ctx)
}

func (p *Promoter) mover(alias string) (*mover, error) {
	m := p.aliases[alias]
	if m == nil {
		if err := CheckAlias(alias); err != nil {
			return nil, err
		}
		if err := checkName(BeforeName(p.opt.Model, alias)); err != nil {
			return nil, err
		}
		name := AliasName(p.opt.Model, alias)
		t, err := kafkaio.NewTransactor(kafkaio.TransactorOptions{
			Config: p.opt.Config, ID: TransactionalID(p.opt.Topic, name), MaxDown: p.opt.MaxDown, BatchBytes: p.opt.MaxRecordBytes,
		})
		if err != nil {
			return nil, err
		}
		m = &mover{opt: &p.opt, t: t, close: t.Close, next: stream.Offsets{}, now: p.bank(name), before: p.bank(name + before)}
		m.read = m.readTopic
		p.aliases[alias] = m
	}
	return m, nil
}

func (p *Promoter) bank(name string) bank {
	return bank{
		a: assembler{model: name, limit: uint64(p.opt.MaxModelBytes)},
		out: Publisher{
			opt: PublisherOptions{
				Topic: p.opt.Topic, Model: name, MaxRecordBytes: p.opt.MaxRecordBytes, MaxModelBytes: p.opt.MaxModelBytes, DeltaRing: DefaultDeltaRing,
			},
			partition: modelPartition(name, p.partitions),
		},
	}
}

// Close gives up what the Promoter holds.
func (p *Promoter) Close() error {
	var errs []error
	for _, m := range p.aliases {
		errs = append(errs, m.close())
	}
	return errors.Join(errs...)
}

// mover writes one alias.
type mover struct {
	opt         *PromoterOptions
	t           kafkaio.TakeWriter
	close       func() error
	read        func(ctx context.Context, from stream.Offsets, take func(*stream.Record)) (stream.Offsets, error)
	next        stream.Offsets // up to which the topic has been read
	now, before bank
}

// bank is one of the two names that an alias has in the topic.
type bank struct {
	a   assembler
	out Publisher // makes its records
}

// take takes note of a record of the topic.
func (b *bank) take(r *stream.Record) {
	if r.Value == nil || !bytes.HasPrefix(r.Key, []byte(b.a.model+"/")) {
		return
	}
	if e, err := decodeEnvelope(r.Value, b.a.limit); err == nil && e.Model == b.a.model && e.Kind == stream.Full {
		b.out.fulls = max(b.out.fulls, e.chunks)
	}
	_, _ = b.a.add(r) // subscribers drop what is of no use
}

// records returns the records of u under the bank's name.
func (b *bank) records(u *stream.Update, epoch uint64, about about, key ed25519.PrivateKey) ([]stream.Record, error) {
	moved := *u
	moved.Model, moved.Epoch = b.a.model, epoch
	b.out.own.Epoch, b.out.opt.SigningKey = epoch, key
	recs, err := b.out.records(&moved, about.headers()...)
	for i := range recs {
		recs[i].Time = about.at
	}
	return recs, err
}

func (m *mover) readTopic(ctx context.Context, from stream.Offsets, take func(*stream.Record)) (stream.Offsets, error) {
	_, ends, err := kafkaio.ReadAll(ctx, kafkaio.SourceOptions{
		Config: m.opt.Config, Topics: []string{m.opt.Topic}, Offsets: from, TopicWait: appear, MaxDown: m.opt.MaxDown, UntilEnd: !m.t.Held(),
	}, take)
	return ends, err
}

// survey looks at what has been added to the topic.
func (m *mover) survey(ctx context.Context) error {
	next, err := m.read(ctx, m.next, func(r *stream.Record) {
		m.now.take(r)
		m.before.take(r)
	})
	if err == nil {
		m.next = maps.Clone(next)
	}
	return err
}

// epoch counts the promotions so far.
func (m *mover) epoch() uint64 { return max(m.now.a.epoch, m.before.a.epoch) }

// holds reports whether the alias stands for u.
func (m *mover) holds(u *stream.Update) bool {
	cur := m.now.a.cur
	return cur != nil && cur.Version == u.Version && cur.Hash == u.Hash && bytes.Equal(cur.Payload, u.Payload)
}

// trusts reports whether what a bank holds is signed by a trusted key or the own
// one.
func (m *mover) trusts(b *bank) bool {
	keys := slices.Clone(m.opt.TrustedKeys)
	if m.opt.SigningKey != nil {
		keys = append(keys, m.opt.SigningKey.Public().(ed25519.PublicKey))
	}
	e := envelope{Update: *b.a.cur, size: uint64(len(b.a.cur.Payload))}
	return e.verify(b.a.cur.Payload, b.a.about.signature, keys) == nil
}

// errMoved says that somebody else has promoted meanwhile.
var errMoved = errors.New("the alias has been moved")

// promote makes the alias stand for u. The topic has just been looked at.
func (m *mover) promote(ctx context.Context, u *stream.Update, why stream.Promotion) error {
	for {
		cur, had := m.now.a.cur, uint64(0)
		if cur != nil {
			had = cur.Version
		}
		if m.holds(u) && (m.opt.SigningKey == nil || m.trusts(&m.now)) {
			return nil
		}
		if want := m.opt.Expect; want != nil && *want != had {
			return &ExpectError{Name: m.now.a.model, Has: had, Want: *want}
		}
		if cur != nil && m.now.a.about.signature != "" && m.opt.SigningKey == nil {
			return &PromoteError{m.now.a.model, fmt.Sprintf("is signed, with key %s: subscribers that trust keys would refuse what is promoted without a signing key", signedBy(m.now.a.about.signature))}
		}
		epoch := m.epoch()
		if epoch+1 == 0 {
			return &PromoteError{m.now.a.model, "has an epoch that cannot grow any more"}
		}
		if why.Previous = had; m.holds(u) { // it is only signed
			why.Previous = m.now.a.about.promotion.Previous
		}
		recs, err := m.now.records(u, epoch+1, about{promotion: why, at: time.Now().Truncate(time.Millisecond)}, m.opt.SigningKey)
		if err == nil && cur != nil && !m.holds(u) {
			key := m.opt.SigningKey
			if key != nil && !m.trusts(&m.now) {
				key = nil // whoever has written it
			}
			var old []stream.Record
			old, err = m.before.records(cur, epoch+1, m.now.a.about, key)
			recs = append(recs, old...)
		}
		if err != nil {
			return err
		}
		err = kafkaio.Once(ctx, m.t, func(ctx context.Context) (bool, error) {
			if err := m.survey(ctx); err != nil {
				return false, err
			}
			switch {
			case m.epoch() == epoch:
				return false, nil
			case m.holds(u):
				return true, nil
			}
			return false, errMoved
		}, recs...)
		if !errors.Is(err, errMoved) {
			if err == nil && m.t.Held() {
				_ = m.survey(ctx) // it is there, whatever the error: now it can be read
			}
			return err
		}
	}
}
