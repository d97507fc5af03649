// Package page writes HTML pages with charts and tables: reports, which are
// self-contained files, and live pages, which refresh themselves.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Page is the content of a page.
type Page struct {
	Title string
	// State says what a service is doing, Problem what is wrong with it; "" in a
	// report.
	State, Problem string
	Lead           string // a sentence or two about what was run
	Answers        []Answer
	Sections       []Section
	Foot           string
	// Promote gives the section "published" a form that posts to admin/promote and
	// admin/rollback.
	Promote bool
}

// Answer answers a question at the top of a page.
type Answer struct {
	Question string
	Text     string // a few words
	Detail   string
	Bad      bool   // needs attention
	Section  string // ID of the section with more
}

// Section is a part of a page.
type Section struct {
	ID, Title string
	Empty     string // what to say if there are neither charts nor tables
	Charts    []Chart
	Tables    []Table
}

// refresh is the time between two updates of a live page.
const refresh = 5 * time.Second

//go:embed chart.js style.css promote.html uplot
var files embed.FS

func read(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // it is embedded
		}
		b.Write(text)
	}
	return b.String()
}

var (
	styles  = markup(read("uplot/uPlot.min.css", "style.css"))
	script  = read("uplot/uPlot.iife.min.js", "chart.js")
	promote = markup(read("promote.html"))
	digest  = sha256.Sum256([]byte(script))
)

// scriptHash returns the script's hash in the form of a Content-Security-Policy.
func scriptHash() string { return "sha256-" + base64.StdEncoding.EncodeToString(digest[:]) }

// html returns the page. A live one replaces its elements with data-live when it
// refreshes, and loads its script; a report holds the script.
func (p *Page) html(live bool) (string, error) {
	w := new(writer)
	w.put(markup("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"))
	seconds := int(refresh.Seconds())
	if live {
		w.put(markup(`<noscript><meta http-equiv="refresh" content="`), seconds, markup("\"></noscript>\n"))
	} else {
		w.put(markup(`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src '`), scriptHash(), markup("'\">\n"))
	}
	w.element("title", p.Title)
	w.put(markup("\n<style>\n"), styles, markup("</style>\n</head>\n<body"))
	w.putIf(live, markup(` data-refresh="`), seconds, markup(`"`))
	w.put(markup(">\n<header class=\"top\">\n<div id=\"head\" class=\"top\" data-live>\n"))
	w.element("h1", p.Title)
	w.put(markup("\n<span role=\"status\">"))
	if p.Problem != "" {
		w.element(`span class="bad"`, p.Problem)
	} else if p.State != "" {
		w.element(`span class="good"`, p.State)
	}
	w.put(markup("</span>\n</div>\n<button id=\"theme\" type=\"button\" hidden>Dark</button>\n</header>\n<main>\n<p id=\"lead\" class=\"soft\" data-live>"), p.Lead,
		markup("</p>\n<span id=\"lost\" class=\"bad\" role=\"alert\" hidden></span>\n<nav id=\"answers\" class=\"answers\" aria-label=\"Summary\" data-live>\n"))
	for _, a := range p.Answers {
		class := markup("strong")
		if a.Bad {
			class += ` class="bad"`
		}
		w.put(markup(`<a class="answer" href="#`), a.Section, markup(`">`))
		w.element("span", a.Question)
		w.element(class, a.Text)
		w.element("small", a.Detail)
		w.put(markup("</a>\n"))
	}
	w.put(markup("</nav>\n"))
	for i := range p.Sections {
		if err := w.section(&p.Sections[i]); err != nil {
			return "", err
		}
	}
	w.putIf(p.Promote, promote)
	w.put(markup("</main>\n<footer>"))
	w.element(`div id="foot" data-live`, p.Foot)
	if live {
		w.put(markup("<a href=\"metrics\">metrics</a>, <a href=\"healthz\">health</a></footer>\n<script src=\"chart.js\"></script>\n"))
	} else {
		w.put(markup("</footer>\n<script>"), markup(script), markup("</script>\n"))
	}
	w.put(markup("</body>\n</html>\n"))
	return w.String(), nil
}

func (w *writer) section(s *Section) error {
	w.put(markup("<section id=\""), s.ID, markup("\" data-live>\n"))
	w.element("h2", s.Title)
	if len(s.Charts)+len(s.Tables) == 0 {
		w.element(`p class="soft"`, s.Empty)
	}
	for i := range s.Charts {
		if err := w.chart(&s.Charts[i]); err != nil {
			return err
		}
	}
	for i := range s.Tables {
		w.table(&s.Tables[i])
	}
	w.put(markup("</section>\n"))
	return nil
}

// Write writes the page as a report: dir/index.html, whose path it returns. It
// creates the directory.
func Write(dir string, p *Page) (string, error) {
	path := filepath.Join(dir, "index.html")
	text, err := p.html(false)
	if err == nil {
		err = os.MkdirAll(dir, 0o777)
	}
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o666)
	}
	if err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	return path, nil
}

// policy lets a live page run the script of this program and fetch itself.
const policy = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// Serve answers with the page as a live one.
func Serve(w http.ResponseWriter, p *Page) {
	text, err := p.html(true)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = io.WriteString(w, text)
}

// Script serves the script of live pages.
func Script(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("ETag", strconv.Quote(scriptHash()))
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(script))
}
