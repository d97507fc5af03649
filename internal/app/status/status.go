package status

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/streamsvm/streamsvm/checkpoint"
	"github.com/streamsvm/streamsvm/internal/app/page"
	"github.com/streamsvm/streamsvm/internal/engine"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/modeltopic"
)

const (
	// refresh is the least time between two looks at the engine: copying its curve
	// costs more than a batch of records.
	refresh = time.Second
	recent  = 8   // versions and refused records that are listed
	maxWhy  = 600 // characters about a refused record
)

// Run is a hook of a training run. It shows the run to people as a page, and to an
// orchestrator as healthy or not. Its methods may be called concurrently.
type Run struct {
	about   About
	now     func() time.Time
	history History

	mu          sync.Mutex
	src         stream.Source
	began, seen time.Time
	view        view
	refused     [][]string // the latest, newest first: when, and why
	saved       time.Time  // the newest checkpoint
	published   published

	// For Healthy: when the state last changed, and what it was then.
	moved           time.Time
	consumed, steps uint64
	failed          error
}

// About has the facts that do not change during a run.
type About struct {
	Version, Learner  string
	Topics            []string
	ModelTopic, Model string
}

// view is the page's view of the engine.
type view struct {
	counts   engine.Counts
	queued   int64
	quality  *Snapshot
	started  bool
	oneLabel *stream.OneLabelError // why there is no model, or nil
}

// New returns the status of a run that starts now.
func New(about About) *Run {
	r := &Run{about: about, now: time.Now, view: view{quality: &Snapshot{}}}
	r.began = r.now()
	r.moved = r.began
	return r
}

// Show adds aliases to the page. It is called before the page is served.
func (r *Run) Show(b Board) { r.published.board = b }

// Started implements engine.StartedHook.
func (r *Run) Started(e *engine.Engine, src stream.Source) {
	r.mu.Lock()
	r.src = src
	r.mu.Unlock()
	r.Consumed(e, 0)
}

// Consumed implements engine.ConsumedHook.
func (r *Run) Consumed(e *engine.Engine, queued int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Consumed(e, queued)
	now := r.now()
	if n, steps := e.Counts().Consumed, e.Report().Step; n != r.consumed || steps != r.steps {
		r.moved, r.consumed, r.steps = now, n, steps
	}
	if r.seen.IsZero() || now.Sub(r.seen) >= refresh || queued == 0 {
		r.seen = now
		r.view = view{e.Counts(), queued, Take(e), e.Started(), e.OneLabel()}
	}
}

// Dead implements engine.DeadHook.
func (r *Run) Dead(why *stream.RecordError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := []string{r.now().UTC().Format(time.DateTime), page.Clip(why.Error(), maxWhy)}
	r.refused = slices.Insert(r.refused, 0, row)[:min(len(r.refused)+1, recent)]
}

// Checkpointed implements engine.CheckpointedHook.
func (r *Run) Checkpointed(_ string, h checkpoint.Header, _ int64, _ time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saved = h.Created
}

// Published implements engine.PublishedHook.
func (r *Run) Published(u *stream.Update, _ time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.published.add(u, len(u.Payload))
}

// Failed implements engine.FailedHook.
func (r *Run) Failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = err
}

// Waiting says why there is no model although examples have come; "" if there is a
// model, or none is due yet.
func (r *Run) Waiting() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting()
}

func (r *Run) waiting() string {
	if r.view.oneLabel == nil {
		return ""
	}
	return "no model yet: " + r.view.oneLabel.Seen()
}

// behind returns the number of records that have not been learned from.
func (r *Run) behind() int64 {
	n := r.view.queued
	if l, ok := r.src.(stream.Lagger); ok {
		for _, lag := range l.Lag() {
			n += lag
		}
	}
	return n
}

// Healthy returns nil unless the run has failed, or records have waited for longer
// than stall while none was consumed and no step was taken.
func (r *Run) Healthy(stall time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.healthy(stall)
}

func (r *Run) healthy(stall time.Duration) error {
	if r.failed != nil {
		return r.failed
	}
	still := r.now().Sub(r.moved)
	if n := r.behind(); still >= stall && n > 0 {
		return fmt.Errorf("no progress for %s with %d records waiting", still.Round(time.Second), n)
	}
	return nil
}

// Page returns a handler that answers with the page. stall is as in Healthy.
func (r *Run) Page(stall time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { page.Serve(w, r.page(stall)) })
}

func (r *Run) page(stall time.Duration) *page.Page {
	moves := r.published.board.moves() // which takes a lock of its own
	r.mu.Lock()
	defer r.mu.Unlock()
	now, v, behind := r.now(), &r.view, r.behind()
	p := &page.Page{
		Title: "streamsvm: " + r.about.Learner, State: "learning", Lead: "From " + strings.Join(r.about.Topics, ", "),
		Foot: "streamsvm " + r.about.Version + ", up " + age(now, r.began) + ". This page refreshes itself.",
	}
	if r.about.ModelTopic != "" {
		p.Lead += fmt.Sprintf(" to model %q on %s", r.about.Model, r.about.ModelTopic)
	}
	p.Lead += fmt.Sprintf(". %s consumed, %s behind. ", page.Count(v.counts.Consumed, "record"), page.Count(behind, ""))
	if r.saved.IsZero() {
		p.Lead += "No checkpoint yet."
	} else {
		p.Lead += "Checkpoint " + age(now, r.saved) + " old."
	}
	switch err := r.healthy(stall); {
	case err != nil && r.failed == nil:
		p.Problem = "stalled: " + err.Error()
	case err != nil:
		p.Problem = err.Error()
	case v.oneLabel != nil:
		p.State = r.waiting()
	case r.seen.IsZero():
		p.State = "starting: opening checkpoints and topics"
	case !v.started:
		p.State = "warming up: choosing scale and options on the first examples"
	case behind == 0:
		p.State = "up to date"
	}
	p.Answers, p.Sections = r.history.Quality(v.quality, "Nothing has been scored yet.")
	refused := page.Section{ID: "refused", Title: "Refused", Empty: "No record has been refused since this process started."}
	if len(r.refused) > 0 {
		refused.Tables = []page.Table{{Title: "Refused records since this process started, the latest ones", Head: []string{"time (UTC)", "why"}, Rows: r.refused}}
	}
	p.Sections = append(p.Sections, refused)
	p.Answers = append(p.Answers, refusals(v.counts.Dead, v.counts.Consumed))
	r.published.show(p, now, moves)
	return p
}

// refusals answers how many of n records were refused.
func refusals(refused, n uint64) page.Answer {
	a := page.Answer{Question: "What does it refuse?", Text: "nothing", Detail: page.Count(n, "record") + " consumed", Section: "refused"}
	if refused > 0 {
		a.Text, a.Bad = page.Count(refused, "record"), refused > n/100
		a.Detail = fmt.Sprintf("%.2g %% of %s", 100*float64(refused)/float64(n), a.Detail)
	}
	return a
}

// age formats a time span with the precision that people need.
func age(now, then time.Time) string {
	d := max(now.Sub(then), 0) // the clock may have been set back
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// Board is the part of a page about the aliases of its model.
type Board struct {
	Moves func() []modeltopic.Move // the known promotions, oldest first; nil is none
	Admin bool                     // show the form that promotes
}

func (b *Board) moves() []modeltopic.Move {
	if b.Moves == nil {
		return nil
	}
	return b.Moves()
}

// published is a page's view of the published versions of the model.
type published struct {
	versions []stream.Update // the latest, newest first, without payloads
	bytes    []int
	board    Board
}

func (p *published) add(u *stream.Update, bytes int) {
	v := *u
	v.Payload = nil
	n := min(len(p.versions)+1, recent)
	p.versions, p.bytes = slices.Insert(p.versions, 0, v)[:n], slices.Insert(p.bytes, 0, bytes)[:n]
}

// show adds the published versions to a page.
func (p *published) show(to *page.Page, now time.Time, moves []modeltopic.Move) {
	a := page.Answer{Question: "What is published?", Text: "nothing yet", Section: "published"}
	s := page.Section{ID: "published", Title: "Published", Empty: "No version has been published yet."}
	if len(p.versions) > 0 {
		newest := &p.versions[0]
		a.Text = fmt.Sprintf("version %d, %s old", newest.Version, age(now, newest.Created))
		a.Detail = "after " + page.Count(newest.Examples, "example")
		t := page.Table{Title: "Model versions", Head: []string{"version", "age", "examples", "form", "bytes"}}
		for i, u := range p.versions {
			t.Rows = append(t.Rows, []string{page.Count(u.Version, ""), age(now, u.Created), page.Count(u.Examples, ""), string(u.Kind), page.Count(p.bytes[i], "")})
		}
		s.Tables = append(s.Tables, t)
	}
	aliases := page.Table{Title: "Aliases", Head: []string{"alias", "version", "before", "since", "by", "reason"}}
	seen := map[string]bool{}
	for _, m := range slices.Backward(moves) { // the last move of an alias counts
		if !seen[m.Alias] {
			seen[m.Alias] = true
			previous := "–"
			if m.Previous > 0 {
				previous = page.Count(m.Previous, "")
			}
			aliases.Rows = append(aliases.Rows, []string{m.Alias, page.Count(m.Version, ""), previous, m.At.UTC().Format(time.DateTime), m.By, m.Reason})
			a.Detail += fmt.Sprintf("; %s is version %d", m.Alias, m.Version)
		}
	}
	if len(seen) > 0 {
		s.Tables = append(s.Tables, aliases)
	}
	to.Answers, to.Sections, to.Promote = append(to.Answers, a), append(to.Sections, s), p.board.Admin
}
