package status

import (
	"net/http"
	"sync"
	"time"

	"github.com/streamsvm/streamsvm/internal/app/page"
	"github.com/streamsvm/streamsvm/internal/eval"
	"github.com/streamsvm/streamsvm/predictor"
	"github.com/streamsvm/streamsvm/stream"
	"github.com/streamsvm/streamsvm/stream/codec"
)

// Serving shows a service that predicts. Its methods may be called concurrently,
// after Begin.
type Serving struct {
	version, where string
	began          time.Time
	decoder        func() stream.Decoder // may return nil
	history        History

	mu              sync.Mutex
	quality         *eval.Prequential // nil before there is a model
	classes         []string
	current         *predictor.Version
	published       published
	scored, refused uint64
}

// Begin sets the version of the program that serves from now on, and what it scores.
// decoder returns the decoder of the records, nil while that is not known.
func (s *Serving) Begin(version, where string, decoder func() stream.Decoder) {
	s.version, s.where, s.decoder, s.began = version, where, decoder, time.Now()
}

// Show adds aliases to the page. It is called before the page is served.
func (s *Serving) Show(b Board) { s.published.board = b }

// Updated is called for each version that is taken into use, with the size of its
// encoded form.
func (s *Serving) Updated(v *predictor.Version, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current = v; v.Update.Version != 0 { // not a model in a file
		s.published.add(&v.Update, bytes)
	}
}

// Measured sets the measures of predictions, which change only in calls of Compare,
// and the names of the classes.
func (s *Serving) Measured(q *eval.Prequential, classes []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quality, s.classes = q, classes
}

// Compare calls add, which changes the measures.
func (s *Serving) Compare(add func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add()
	if s.quality != nil {
		s.history.Scored(s.quality, s.fields)
	}
}

func (s *Serving) fields() ([]codec.FieldCount, uint64, uint64) {
	return codec.FieldCounts(s.decoder())
}

// Scored counts records that were scored, and records that could not be.
func (s *Serving) Scored(scored, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scored += uint64(scored)
	s.refused += uint64(refused)
}

// Page answers with the page.
func (s *Serving) Page(w http.ResponseWriter, _ *http.Request) { page.Serve(w, s.page()) }

func (s *Serving) page() *page.Page {
	moves := s.published.board.moves()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	p := &page.Page{
		Title: "streamsvm predict", State: "predicting", Lead: s.where,
		Foot: "streamsvm " + s.version + ", up " + age(now, s.began) + ". This page refreshes itself.",
	}
	if s.current == nil {
		p.State = "waiting for the first model"
		return p
	}
	if name := s.current.Update.Model; name != "" {
		p.Title += ": " + name
	}
	p.Lead += ". The model, of the learner " + s.current.Learner() + ": " + s.current.Info().Text + "."
	quality := &Snapshot{}
	quality.Fields, quality.Events, _ = s.fields()
	if s.quality != nil && s.quality.Examples() > 0 {
		quality.Summary, quality.Scored, quality.Classes = s.quality.Summary(), s.quality.Examples(), s.classes
		quality.Summary.Name(s.classes)
	}
	p.Answers, p.Sections = s.history.Quality(quality, "No labels have come with the records.")
	p.Answers[0].Question = "Are its predictions right?"
	p.Sections = append(p.Sections, page.Section{ID: "refused", Title: "Refused", Empty: "Each refused record or request got an answer with the reason."})
	p.Answers = append(p.Answers, refusals(s.refused, s.scored+s.refused))
	s.published.show(p, now, moves)
	return p
}
