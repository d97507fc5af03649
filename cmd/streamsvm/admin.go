package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/cli"
	"github.com/streamsvm/streamsvm/internal/app/status"
	"github.com/streamsvm/streamsvm/internal/crash"
	"github.com/streamsvm/streamsvm/stream/kafkaio"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

// adminFlags say who may promote from the page: whoever has the token. Without a token,
// nobody may.
type adminFlags struct{}

const adminToken = "admin-token"

// leastToken is the least length of a token, in bytes, so that it cannot be guessed.
const leastToken = 16

func (o *adminFlags) define(f *cli.Flags) {
	f.Secret(adminToken, "the token with which requests may promote and roll back by the status page")
}

// given reports whether there is a token.
func (o *adminFlags) given(c *cli.Call) bool {
	return c.Given(adminToken) || c.Given(adminToken+"-file")
}

// check returns an error if the settings are invalid for a command that follows or
// writes a model topic.
func (o *adminFlags) check(c *cli.Call, listen, topic string) error {
	if !o.given(c) {
		return nil
	}
	switch file := adminToken + "-file"; {
	case listen == "" && c.Origin(file).Source == cli.FromFlag:
		return c.Bad(file, errors.New("it needs --listen"))
	case topic == "" && c.Origin(file).Source == cli.FromFlag:
		return c.Bad(file, errors.New("it needs --model-topic"))
	case listen == "" || topic == "":
		return nil // in a file or an environment that several commands share
	}
	token, err := c.Secret(adminToken)
	if err != nil {
		return err
	}
	if len(token) < leastToken {
		return c.Bad(adminToken, fmt.Errorf("it has %d bytes, at least %d are needed: openssl rand -hex 16 makes one", len(token), leastToken))
	}
	return nil
}

// aliases shows on a page which versions the aliases of a model point to, and lets
// requests with the token change that.
type aliases struct {
	c    *cli.Call
	opt  modeltopic.ReadOptions
	v    versions      // each request uses a copy
	name func() string // of the model; "" while it is not known
	ctx  context.Context

	looking sync.Mutex // held while the topic is read
	w       *modeltopic.Watcher
	mu      sync.Mutex
	moves   []modeltopic.Move
	looked  time.Time

	admin sync.Mutex // one change at a time
}

const (
	lookEvery = 5 * time.Second
	maxMoves  = 1000
)

// newAliases returns the aliases of the topic, which can be read until ctx ends. The
// topic is read only when a page is requested, so it costs nothing if nobody looks.
func newAliases(ctx context.Context, c *cli.Call, cfg kafkaio.Config, kafka kafkaFlags, trust trustFlags, sign signFlags, topic string, name func() string) (*aliases, error) {
	keys, err := trust.trustedKeys(c)
	if err != nil {
		return nil, err
	}
	return &aliases{
		c: c, ctx: ctx, name: name,
		opt: modeltopic.ReadOptions{Config: cfg, Topic: topic, TrustedKeys: keys, MaxDown: patience},
		v: versions{
			modelTopicFlags: &modelTopicFlags{kafkaFlags: kafka, trustFlags: trust, topic: topic},
			signFlags:       sign,
		},
	}, nil
}

// Moves returns the promotions known so far. It starts to look for later ones, for the
// next call.
func (a *aliases) Moves() []modeltopic.Move {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.looked) >= lookEvery && a.name() != "" {
		a.looked = time.Now()
		crash.Go(a.look)
	}
	return slices.Clone(a.moves)
}

func (a *aliases) look() {
	if !a.looking.TryLock() {
		return
	}
	defer a.looking.Unlock()
	if a.w == nil {
		a.opt.Model = a.name()
		a.w = modeltopic.NewWatcher(a.opt)
	}
	moves, err := a.w.Look(a.ctx)
	var unknown *kafkaio.UnknownTopicError
	if err != nil && a.ctx.Err() == nil && !errors.As(err, &unknown) { // the first version makes the topic
		a.c.Log.Warn("the aliases in the model topic cannot be read", "err", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.moves = append(a.moves, moves...)
	sort.SliceStable(a.moves, func(i, j int) bool { return a.moves[i].At.Before(a.moves[j].At) })
	a.moves = a.moves[max(0, len(a.moves)-maxMoves):]
}

// serve adds the routes, and returns what the page shows.
func (a *aliases) serve(mux *http.ServeMux, o *adminFlags) (status.Board, error) {
	token := ""
	if o.given(a.c) {
		_, err := a.v.signingKey(a.c)
		if err != nil {
			return status.Board{}, err
		}
		if token, err = a.c.Secret(adminToken); err != nil {
			return status.Board{}, err
		}
	}
	mux.Handle("POST /admin/promote", a.allowed(token, (*versions).promote))
	mux.Handle("POST /admin/rollback", a.allowed(token, (*versions).rollback))
	return status.Board{Moves: a.Moves, Admin: token != ""}, nil
}

// change is the body of a request.
type change struct {
	Alias   string `json:"alias"`   // default champion
	Version uint64 `json:"version"` // 0: the newest
	Reason  string `json:"reason"`
}

// allowed returns a handler that makes a change for requests with the token; if token is
// "", it refuses all. The token must be in a header that a page of another origin cannot
// make a browser send.
func (a *aliases) allowed(token string, do func(*versions, context.Context, *cli.Call) (string, error)) http.HandlerFunc {
	want := sha256.Sum256([]byte(token)) // equal lengths, or the time of a comparison would reveal the length
	return func(w http.ResponseWriter, r *http.Request) {
		refuse := func(code int, text string) {
			a.c.Log.Warn("a change of an alias has been refused", "from", r.RemoteAddr, "why", text)
			http.Error(w, text, code)
		}
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		got := sha256.Sum256([]byte(given))
		switch {
		case token == "":
			refuse(http.StatusForbidden, "changes are not allowed: there is no --admin-token-file")
			return
		case !ok || subtle.ConstantTimeCompare(got[:], want[:]) != 1:
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(http.StatusUnauthorized, "the token is missing or wrong")
			return
		}
		var ch change
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
		d.DisallowUnknownFields()
		if err := d.Decode(&ch); err != nil {
			refuse(http.StatusBadRequest, "the request is no JSON of alias, version and reason: "+err.Error())
			return
		}
		a.admin.Lock()
		defer a.admin.Unlock()
		v, flags := a.v, *a.v.modelTopicFlags
		flags.name = a.name()
		v.modelTopicFlags = &flags
		v.alias, v.version, v.reason = cmp.Or(ch.Alias, "champion"), ch.Version, cmp.Or(ch.Reason, "by the page")
		done, err := "", errors.New("there is no model yet")
		if flags.name != "" {
			done, err = do(&v, r.Context(), a.c)
		}
		if err != nil {
			refuse(http.StatusConflict, err.Error())
			return
		}
		a.c.Log.Info("alias changed by the page", "from", r.RemoteAddr, "done", done)
		a.look()
		fmt.Fprintln(w, done)
	}
}
