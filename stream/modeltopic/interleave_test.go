package modeltopic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
)

// This file checks that a model has one writer, whatever happens, by running the
// Publisher against a model of Kafka in every order in which its requests can
// meet those of another one, crashes, lost answers and compaction. Orders that
// lead to the same state are followed once.

// event is a record of the modelled partition.
type event struct {
	rec   stream.Record
	token int // of the transaction
	state byte
}

const (
	open      = 'o'
	committed = 'c'
	aborted   = 'a'
	cleaned   = 'x' // was committed; its offset stays
)

// takes bounds how often the id is taken: two that begin together may take it
// from each other in turn, for as long as each is the quicker one at the wrong
// time.
const takes = 4

// guards can be removed, to see that the check notices.
type guards struct {
	noFencing      bool // brokers let an earlier holder of the id write
	noSecondLook   bool // a Publisher does not look again after it has taken the id
	noClaims       bool // nobody writes who has the model
	readsOpen      bool // subscribers read what is not committed
	cleansByOpen   bool // compaction lets a record that is not committed replace one that is
	ignoreCheckDir bool // a trainer publishes without having stored
}

// universe is the modelled cluster, the directories of checkpoints, and those
// who use them.
type universe struct {
	guards
	log    []event
	holder int // token of the Publisher that has taken the id last
	tokens int
	dirs   map[string]uint64 // epoch claimed in a directory
	ws     []*trainerModel
	follow assembler // a subscriber that reads along
	read   int       // events it has read
	last   *stream.Update
	newest uint64 // epoch claimed
	seen   map[string]bool
	wrong  error
	crash  int // how many may still happen
	lose   int
	clean  int
	path   []string
}

// trainerModel is a trainer with a directory of checkpoints.
type trainerModel struct {
	u       *universe
	name    string
	owner   string
	replace bool
	life    int
	epoch   uint64 // claimed in the directory
	p       *Publisher
	token   int // 0: not held
	asks    chan ask
	began   uint64 // epoch that it found in the topic
	err     error  // why it has ended
	over    bool
	done    []*stream.Update // published, as it knows
}

// ask is a request that waits to be carried out.
type ask struct {
	what   string
	answer chan error
	do     func(lost bool) error
	can    func() bool
	commit bool // its answer may be lost
}

var (
	errCrash = errors.New("crash")
	errLost  = errors.New("the answer is lost")
)

// step waits until the request is carried out.
func (w *trainerModel) step(a ask) error {
	a.answer = make(chan error)
	w.asks <- a
	return <-a.answer
}

func (w *trainerModel) Held() bool { return w.token != 0 }

func (w *trainerModel) Lost(context.Context) (bool, error) { return false, nil }

func (w *trainerModel) Take(context.Context) error {
	return w.step(ask{what: "take", can: func() bool { return w.u.tokens < takes }, do: func(bool) error {
		u := w.u
		u.tokens++
		w.token, u.holder = u.tokens, u.tokens
		for i := range u.log {
			if e := &u.log[i]; e.state == open && !u.noFencing {
				e.state = aborted
			}
		}
		return nil
	}})
}

func (w *trainerModel) Write(_ context.Context, recs ...stream.Record) (err error) {
	defer func() {
		if err != nil {
			w.token = 0
		}
	}()
	u := w.u
	fenced := func() bool { return w.token != u.holder && !u.noFencing }
	if u.noClaims && strings.HasSuffix(string(recs[0].Key), "/claim") {
		return nil
	}
	err = w.step(ask{what: "write " + string(recs[0].Key), do: func(bool) error {
		if fenced() {
			return kafkaio.ErrFenced
		}
		for _, r := range recs {
			u.log = append(u.log, event{r, w.token, open})
		}
		return nil
	}})
	if err != nil {
		return err
	}
	return w.step(ask{what: "commit", commit: true, do: func(lost bool) error {
		if fenced() {
			return kafkaio.ErrFenced
		}
		for i := range u.log {
			if e := &u.log[i]; e.token == w.token && e.state == open {
				u.wrong = cmp.Or(u.wrong, u.commit(e))
			}
		}
		if lost {
			return errLost
		}
		return nil
	}})
}

func (w *trainerModel) Close() error { return nil }

func (w *trainerModel) Scan(_ context.Context, _ []string, from stream.Offsets, take func(*stream.Record)) (stream.Offsets, error) {
	u := w.u
	p := stream.Partition{Topic: "t"}
	next := stream.Offsets{}
	if w.Held() && u.noSecondLook {
		return from, nil
	}
	held := w.Held()
	err := w.step(ask{
		what: "look",
		// Who holds the id waits for open transactions; those of a trainer that has
		// crashed are given up after a while.
		can: func() bool {
			for _, e := range u.log {
				if held && e.state == open && u.alive(e.token) {
					return false
				}
			}
			return true
		},
		do: func(bool) error {
			i := int64(0)
			for ; i < int64(len(u.log)); i++ {
				e := &u.log[i]
				if e.state == open && held {
					e.state = aborted
				}
				if e.state == open {
					break // the last stable offset
				}
				if r := e.rec; i >= from[p] && e.state == committed {
					take(&r)
				}
			}
			next[p] = max(i, from[p])
			return nil
		},
	})
	return next, err
}

func (u *universe) alive(token int) bool {
	return slices.ContainsFunc(u.ws, func(w *trainerModel) bool { return !w.over && w.token == token })
}

// live is what a trainer does, in the order of trainer.Run.
func (w *trainerModel) live() {
	defer close(w.asks)
	w.p = newPublisher(PublisherOptions{Topic: "t", Model: "m", MaxRecordBytes: 1000, DeltaRing: 4, Writer: w}, 1)
	w.p.by = w.name
	w.err = w.train(context.Background())
}

func (w *trainerModel) train(ctx context.Context) error {
	if err := w.p.log.Scan(ctx); err != nil {
		return err
	}
	u := w.u
	c, _ := w.p.Last()
	w.began = c.Epoch
	err := w.step(ask{what: "claim the directory", do: func(bool) error {
		if c.Foreign(w.owner, u.dirs[w.owner]) && !w.replace {
			return errors.New("foreign")
		}
		u.dirs[w.owner] = max(u.dirs[w.owner], c.Epoch) + 1
		w.epoch = u.dirs[w.owner]
		return nil
	}})
	if err != nil {
		return err
	}
	if err := w.p.Claim(ctx, w.owner, w.epoch); err != nil {
		return err
	}
	var before *stream.Update
	for v := uint64(1); v <= 2; v++ {
		err := w.step(ask{what: "store", do: func(bool) error {
			if u.dirs[w.owner] != w.epoch && !u.ignoreCheckDir {
				return errors.New("the directory is another's")
			}
			return nil
		}})
		if err != nil {
			return errors.Join(err, w.p.Release(ctx))
		}
		up := update("m", w.epoch, v, 60)
		if v == 1 {
			up = update("m", w.epoch, v, 400) // of two chunks
		}
		up.Learner = w.name
		sent := up
		if v == 2 {
			sent = deltaOf(before, up)
		}
		if err := w.p.Publish(ctx, sent); err != nil {
			return err
		}
		w.done = append(w.done, up)
		before = up
	}
	return nil
}

// commit makes a record a committed one, and returns what is wrong with it:
// nobody writes after somebody else has claimed, and nothing is written twice.
func (u *universe) commit(e *event) error {
	e.state = committed
	if e.rec.Value == nil {
		return nil
	}
	env, err := decodeEnvelope(e.rec.Value, 1<<20)
	if err != nil {
		return err
	}
	if env.Kind == claim {
		if env.Epoch < u.newest || env.Epoch == u.newest && env.owner != "" {
			return fmt.Errorf("epoch %d is claimed after %d", env.Epoch, u.newest)
		}
		u.newest = env.Epoch
		return nil
	}
	if env.Epoch != u.newest && !u.noClaims {
		return fmt.Errorf("version %d of epoch %d is written in epoch %d", env.Version, env.Epoch, u.newest)
	}
	id := fmt.Sprint(env.Epoch, env.Version, env.chunk)
	if u.seen[id] {
		return fmt.Errorf("version %d of epoch %d is written twice", env.Version, env.Epoch)
	}
	u.seen[id] = true
	return nil
}

// check returns what is wrong with the present state. The part about those that
// join now is left out on the way to a state that is known to be right.
func (u *universe) check(joiners bool) error {
	if u.wrong != nil {
		return u.wrong
	}
	// A subscriber that reads along never goes back.
	for ; u.read < len(u.log); u.read++ {
		e := &u.log[u.read]
		if e.state == open && !u.readsOpen {
			break // the last stable offset
		}
		if e.state == aborted && !u.readsOpen || e.state == cleaned {
			continue
		}
		before := u.follow.cur
		r := e.rec
		if done, err := u.follow.add(&r); err != nil {
			return fmt.Errorf("the subscriber refuses a record: %w", err)
		} else if done {
			u.last = u.follow.cur
			if before != nil && (before.Epoch > u.last.Epoch || before.Epoch == u.last.Epoch && before.Version >= u.last.Version) {
				return fmt.Errorf("the subscriber goes back from version %d to %d", before.Version, u.last.Version)
			}
		}
	}
	if !joiners {
		return nil
	}
	// One that joins now gets what the other one has.
	late := assembler{model: "m", limit: 1 << 20, deltas: true}
	for i := range u.read {
		e := &u.log[i]
		if r := e.rec; e.state == committed || e.state != cleaned && u.readsOpen {
			_, _ = late.add(&r)
		}
	}
	switch {
	case u.last == nil && late.cur == nil:
	case u.last == nil || late.cur == nil || late.cur.Epoch != u.last.Epoch || late.cur.Version != u.last.Version || late.cur.Hash != u.last.Hash || late.cur.Learner != u.last.Learner:
		return fmt.Errorf("who joins now gets %v, who has read along has %v", short(late.cur), short(u.last))
	}
	return nil
}

func short(u *stream.Update) string {
	if u == nil {
		return "nothing"
	}
	return fmt.Sprintf("version %d of epoch %d by %s", u.Version, u.Epoch, u.Learner)
}

// checkEnd returns what is wrong when nobody does anything any more.
func (u *universe) checkEnd() error {
	if slices.ContainsFunc(u.ws, func(w *trainerModel) bool { return !w.over }) {
		if u.tokens == takes {
			return nil
		}
		return errors.New("there is nothing that anybody can do")
	}
	var well []*trainerModel
	for _, w := range u.ws {
		if w.err == nil {
			well = append(well, w)
		}
	}
	if len(well) == 0 {
		return fmt.Errorf("nobody is left: %v", u.errs())
	}
	// Whoever ended well last is the one that has been published last.
	var newest *stream.Update
	for _, w := range well {
		if n := w.done[len(w.done)-1]; newest == nil || n.Epoch > newest.Epoch {
			newest = n
		}
	}
	if u.last == nil || u.last.Epoch != newest.Epoch || u.last.Version != newest.Version {
		return fmt.Errorf("published last is %v, the subscriber has %v", short(newest), short(u.last))
	}
	return nil
}

func (u *universe) errs() (errs []error) {
	for _, w := range u.ws {
		errs = append(errs, w.err)
	}
	return errs
}

// compact removes what is superseded, if it may, and reports whether there is
// anything.
func (u *universe) compact(may bool) (any bool) {
	newest := map[string]int{}
	for i := range u.log {
		e := &u.log[i]
		if e.state == open && !u.cleansByOpen {
			break
		}
		if e.state == committed || u.cleansByOpen {
			newest[string(e.rec.Key)] = i
		}
	}
	for i := range u.log {
		e := &u.log[i]
		if n, ok := newest[string(e.rec.Key)]; ok && i < n && e.state == committed {
			any = true
			if may {
				e.state = cleaned
			}
		}
	}
	return any
}

// key is the state as far as it matters to what may happen from it.
func (u *universe) key(waiting []*ask) [16]byte {
	b := fnv.New128a()
	for _, e := range u.log {
		_, _ = b.Write(e.rec.Key)
		_, _ = b.Write([]byte{byte(e.token), e.state})
	}
	fmt.Fprint(b, u.holder, u.dirs, u.crash, u.lose, u.clean, u.read, short(u.last))
	for i, w := range u.ws {
		fmt.Fprint(b, w.token, w.life, w.over, w.err != nil, w.epoch, w.began, len(w.done))
		if p := w.p; p != nil {
			retained := p.log.Replace([]stream.Record{{}}, "m/full/")
			fmt.Fprint(b, p.log.Newest().Epoch, p.log.Newest().Owner, p.log.Own().Epoch, p.version, len(retained), p.sought)
		}
		if waiting != nil && waiting[i] != nil {
			fmt.Fprint(b, waiting[i].what)
		}
	}
	return [16]byte(b.Sum(nil))
}

// run carries out the choices, then the first possible one again and again
// until nothing is left to do or the state is known. It returns how many there
// were at each point.
func (u *universe) run(choices []int, known map[[16]byte]struct{}) (taken, counts []int, err error) {
	waiting := make([]*ask, len(u.ws))
	start := func(i int) {
		w := u.ws[i]
		w.asks = make(chan ask)
		w.over, w.err, w.token = false, nil, 0
		go w.live()
	}
	next := func(i int) {
		a, ok := <-u.ws[i].asks
		if waiting[i] = nil; ok {
			waiting[i] = &a
		} else {
			u.ws[i].over = true
		}
	}
	for i := range u.ws {
		start(i)
		next(i)
	}
	defer func() {
		for i, w := range u.ws { // let the goroutines end
			for waiting[i] != nil {
				w.u = &universe{guards: u.guards, dirs: map[string]uint64{}, seen: map[string]bool{}}
				waiting[i].answer <- errCrash
				next(i)
			}
		}
	}()
	for {
		if err := u.check(len(taken) >= len(choices)); err != nil {
			return taken, counts, err
		}
		type option struct {
			name string
			do   func()
		}
		var options []option
		for i, w := range u.ws {
			a := waiting[i]
			if a == nil {
				continue
			}
			if a.can == nil || a.can() {
				act := func(lost bool) func() {
					return func() {
						a.answer <- a.do(lost)
						next(i)
					}
				}
				options = append(options, option{w.name + ": " + a.what, act(false)})
				if a.commit && u.lose > 0 {
					options = append(options, option{w.name + ": " + a.what + ", answer lost", func() { u.lose--; act(true)() }})
				}
			}
			if u.crash > 0 {
				options = append(options, option{w.name + " crashes", func() {
					u.crash--
					w.over = true // so that what it has open is given up
					a.answer <- errCrash
					next(i)
					for waiting[i] != nil { // it does nothing more
						waiting[i].answer <- errCrash
						next(i)
					}
					w.life++
					start(i)
					next(i)
				}})
			}
		}
		if u.clean > 0 && u.compact(false) {
			options = append(options, option{"compaction", func() { u.clean--; u.compact(true) }})
		}
		if len(options) == 0 {
			return taken, counts, u.checkEnd()
		}
		n := 0
		if len(taken) < len(choices) {
			n = choices[len(taken)]
		} else {
			k := u.key(waiting)
			if _, ok := known[k]; ok {
				return taken, counts, nil
			}
			known[k] = struct{}{}
		}
		taken, counts = append(taken, n), append(counts, len(options))
		u.path = append(u.path, options[n].name)
		options[n].do()
	}
}

// explore runs all orders, and returns how many states there are and the first
// order in which something is wrong.
func explore(make func() *universe) (states, runs int, err error) {
	known := map[[16]byte]struct{}{}
	var choices []int
	for {
		u := make()
		taken, counts, err := u.run(choices, known)
		runs++
		if err != nil {
			return len(known), runs, fmt.Errorf("%w\n  %s", err, strings.Join(u.path, "\n  "))
		}
		i := len(taken) - 1
		for i >= 0 && taken[i]+1 == counts[i] {
			i--
		}
		if i < 0 {
			return len(known), runs, nil
		}
		choices = append(slices.Clone(taken[:i]), taken[i]+1)
	}
}

// scene makes universes with two trainers.
func scene(g guards, crash, lose, clean int, owners [2]string, replace bool) func() *universe {
	return func() *universe {
		u := &universe{guards: g, dirs: map[string]uint64{}, seen: map[string]bool{}, crash: crash, lose: lose, clean: clean}
		u.follow = assembler{model: "m", limit: 1 << 20, deltas: true}
		for i, name := range []string{"A", "B"} {
			u.ws = append(u.ws, &trainerModel{u: u, name: name, owner: owners[i], replace: replace && i == 1})
		}
		return u
	}
}

func TestOneWriter(t *testing.T) {
	scenes := map[string]struct {
		owners  [2]string
		replace bool
	}{
		"two directories":        {[2]string{"a", "b"}, false},
		"one replaces the other": {[2]string{"a", "b"}, true},
		"two on one directory":   {[2]string{"a", "a"}, false},
	}
	budgets := [][3]int{{0, 0, 1}, {0, 1, 0}, {1, 0, 0}} // crashes, lost answers, compactions
	for _, name := range slices.Sorted(maps.Keys(scenes)) {
		s := scenes[name]
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				budgets := budgets
				switch long := os.Getenv("STREAMSVM_LONG") != ""; {
				case s.owners[0] != s.owners[1] && !long:
					budgets = budgets[:1]
				case s.owners[0] == s.owners[1] && long: // ten times as many orders as the others
					budgets = budgets[:1]
				case s.owners[0] == s.owners[1]:
					budgets = [][3]int{{}}
				}
				for _, b := range budgets {
					states, runs, err := explore(scene(guards{}, b[0], b[1], b[2], s.owners, s.replace))
					if err != nil {
						t.Fatalf("%d crashes, %d lost answers, %d compactions: %v", b[0], b[1], b[2], err)
					}
					t.Logf("%d crashes, %d lost answers, %d compactions: %d states in %d runs", b[0], b[1], b[2], states, runs)
				}
			})
		})
	}
}

// TestOneWriterNeedsItsGuards removes one guard after the other: the check finds
// an order in which that does harm.
func TestOneWriterNeedsItsGuards(t *testing.T) {
	for name, c := range map[string]struct {
		guards
		owners             [2]string
		replace            bool
		crash, lose, clean int
	}{
		"fencing by the brokers":       {guards{noFencing: true}, [2]string{"a", "b"}, true, 0, 0, 0},
		"a look after taking the id":   {guards{noSecondLook: true}, [2]string{"a", "b"}, false, 0, 0, 0},
		"claims":                       {guards{noClaims: true}, [2]string{"a", "b"}, false, 0, 0, 0},
		"reading committed records":    {guards{readsOpen: true}, [2]string{"a", "b"}, true, 1, 0, 1},
		"compaction by committed ones": {guards{cleansByOpen: true}, [2]string{"a", "b"}, true, 1, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, runs, err := explore(scene(c.guards, c.crash, c.lose, c.clean, c.owners, c.replace))
				if err == nil {
					t.Fatalf("%d runs without it, and nothing is wrong", runs)
				}
				t.Logf("found after %d runs: %v", runs, err)
			})
		})
	}
}
