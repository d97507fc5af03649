package status

import (
	_ "embed"

	"github.com/streamsvm/streamsvm/internal/app/chart"
	"github.com/streamsvm/streamsvm/internal/app/course"
)

type markup = chart.Markup

// What of the page is always the same.
var (
	//go:embed style.html
	styleText string
	//go:embed promote.html
	promoteText string
)

// html returns the page. What has data-live is replaced when the page renews
// itself.
func (p *page) html() (string, error) {
	h := new(chart.HTML)
	p.head(h)
	h.Put(markup("<dl id=\"tiles\" class=\"tiles\" data-live>\n"))
	for _, t := range p.Tiles {
		h.Put(markup(`<div class="tile"><dt>`), t.Name, markup("</dt><dd>"), t.Value, markup("</dd></div>\n"))
	}
	h.Put(markup("</dl>\n"))
	for _, section := range []func(*chart.HTML) error{p.quality, p.versions, p.service} {
		if err := section(h); err != nil {
			return "", err
		}
	}
	h.Put(markup("</main>\n<footer id=\"foot\" data-live>streamsvm "), p.Version, markup(", up "), p.Up,
		markup(`. <a href="metrics">metrics</a>, <a href="healthz">health</a>. This page renews itself.</footer>
<script src="chart.js"></script>
</body>
</html>
`))
	return h.String(), nil
}

// head writes the page up to its tiles.
func (p *page) head(h *chart.HTML) {
	h.Put(markup(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<noscript><meta http-equiv="refresh" content="`), p.Refresh, markup("\"></noscript>\n<title>"), p.Title, markup("</title>\n"))
	h.Style()
	h.Put(markup("\n"), markup(styleText), markup("</head>\n<body data-refresh=\""), p.Refresh, markup(`">
<header class="top">
<div id="head" class="top" data-live>
<h1>`), p.Title, markup("</h1>\n<span role=\"status\">"))
	if p.Problem != "" {
		h.Put(markup(`<span class="bad">`), p.Problem)
	} else {
		h.Put(markup(`<span class="good">`), p.State)
	}
	h.Put(markup("</span></span>\n<span class=\"soft\">"), p.Where, markup("</span>\n</div>\n"))
	h.Theme()
	h.Put(markup(`
</header>
<nav aria-label="Sections"><a href="#quality">Quality</a> <a href="#versions">Versions</a> <a href="#service">Service</a></nav>
<span id="lost" class="bad" role="alert" hidden></span>
<main>
`))
}

func (p *page) quality(h *chart.HTML) error {
	h.Put(markup("<section id=\"quality\" aria-label=\"Quality\" data-live>\n"))
	h.If(len(p.Course) == 0, markup(`<p class="soft">`), p.NoCourse, markup("</p>\n"))
	if err := h.Charts(p.Course); err != nil {
		return err
	}
	h.Tables(p.Quality)
	h.Put(markup("</section>\n"))
	return nil
}

func (p *page) versions(h *chart.HTML) error {
	h.Put(markup("<section id=\"versions\" aria-label=\"Versions\" data-live>\n"))
	if p.Versions != nil {
		if err := h.Chart(p.Versions); err != nil {
			return err
		}
	}
	h.Put(markup("<div class=\"cols\">\n<div>"))
	if len(p.Models.Rows) > 0 {
		h.Table(&p.Models)
	} else {
		h.Put(markup("<h2>Model versions</h2>\n<p class=\"soft\">None published yet.</p>"))
	}
	h.Put(markup("</div>\n"))
	if p.Pair != nil {
		pair(h, p.Pair)
	}
	h.Put(markup("</div>\n"))
	if len(p.Aliases.Rows) > 0 {
		h.Table(&p.Aliases)
	}
	h.Put(markup("</section>\n"))
	h.If(p.Admin, markup(promoteText))
	return nil
}

// pair writes which two versions are compared, and how they differ.
func pair(h *chart.HTML, c *course.Pair) {
	pick := func(label, name markup, chosen uint64) {
		h.Put(markup("<label>"), label, markup(` <select name="`), name, markup(`">`))
		for _, n := range c.Numbers {
			h.Put(markup("<option"))
			h.If(n == chosen, markup(" selected"))
			h.Put(markup(">"), n, markup("</option>"))
		}
		h.Put(markup("</select></label>\n"))
	}
	h.Put(markup("<div>\n<form method=\"get\" data-pick>\n"))
	pick("Compare version", "a", c.A)
	pick("with", "b", c.B)
	h.Put(markup("<noscript><button>Compare</button></noscript>\n</form>\n"))
	h.Table(&c.Table)
	h.Put(markup("</div>\n"))
}

func (p *page) service(h *chart.HTML) error {
	h.Put(markup("<section id=\"service\" aria-label=\"Service\" data-live>\n<div class=\"cols\">\n"))
	for i := range p.Pace {
		if err := h.Chart(&p.Pace[i]); err != nil {
			return err
		}
	}
	h.Put(markup("</div>\n<div class=\"cols\">\n"))
	for i := range p.Service {
		t := &p.Service[i]
		h.Put(markup("<div>"))
		if len(t.Rows) > 0 {
			h.Table(t)
		} else {
			h.Put(markup("<h2>"), t.Title, markup("</h2>\n<p class=\"soft\">None yet.</p>"))
		}
		h.Put(markup("</div>\n"))
	}
	h.Put(markup("</div>\n</section>\n"))
	return nil
}
