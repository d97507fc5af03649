package chart

import (
	"encoding/json"
	"fmt"
	"html"
	"strings"
)

// HTML is a page, or a part of one, that is being written. It does what
// html/template would do for these pages; a program with that package keeps every
// exported method of every type, since templates may call any, and is a sixth
// larger.
type HTML struct{ b strings.Builder }

// String returns what has been written.
func (h *HTML) String() string { return h.b.String() }

// Put writes the parts of a page one after the other. A string constant of the
// caller is markup only if it is one of type Markup; all else is text, and
// escaped such that it is safe between tags and in quoted attributes.
func (h *HTML) Put(parts ...any) {
	for _, p := range parts {
		switch p := p.(type) {
		case Markup:
			h.b.WriteString(string(p))
		default:
			h.b.WriteString(html.EscapeString(fmt.Sprint(p)))
		}
	}
}

// If writes the parts if c holds.
func (h *HTML) If(c bool, parts ...any) {
	if c {
		h.Put(parts...)
	}
}

// Markup is HTML as it is. It is made of constants only.
type Markup string

// Style writes the style of all pages, for the head of one.
func (h *HTML) Style() { h.Put(Markup("<style>\n"), styles, Markup("</style>")) }

// Theme writes a button that changes between light and dark.
func (h *HTML) Theme() { h.Put(Markup(`<button id="theme" type="button" hidden>Dark</button>`)) }

// Inline writes the script of all pages, for the end of one. Others refer to what
// Script serves.
func (h *HTML) Inline() { h.Put(Markup("<script>"), Markup(script), Markup("</script>")) }

// Charts writes the charts, the first over the whole width and the others in
// columns.
func (h *HTML) Charts(list []Chart) error {
	for i := range list {
		h.If(i == 1, Markup("<div class=\"cols\">\n"))
		if err := h.Chart(&list[i]); err != nil {
			return err
		}
	}
	h.If(len(list) > 1, Markup("</div>\n"))
	return nil
}

// Chart writes a chart, drawn by the script, and its numbers as a table.
func (h *HTML) Chart(c *Chart) error {
	// Marshal writes <, > and & as escapes of JSON, so nothing ends the element.
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	h.Put(Markup("<figure class=\"chart\">\n<h2>"), c.Title, Markup("</h2>\n<div class=\"plot\"></div>\n"))
	h.If(c.Caption != "", Markup("<figcaption>"), c.Caption, Markup("</figcaption>\n"))
	h.Put(Markup("<details><summary>Numbers</summary>\n<div class=\"scroll\"><table class=\"numbers\"><caption class=\"unseen\">"), c.Title, Markup("</caption><tr>"))
	for _, text := range c.Head() {
		h.Put(Markup(`<th scope="col">`), text, Markup("</th>"))
	}
	h.Put(Markup("</tr>\n"))
	for _, row := range c.Rows() {
		h.Put(Markup("<tr>"))
		for _, text := range row {
			h.Put(Markup("<td>"), text, Markup("</td>"))
		}
		h.Put(Markup("</tr>\n"))
	}
	h.Put(Markup("</table></div></details>\n<script type=\"application/json\">"), Markup(data), Markup("</script>\n</figure>\n"))
	return nil
}

// Tables writes tables.
func (h *HTML) Tables(list []Table) {
	for i := range list {
		h.Table(&list[i])
	}
}

// Table writes a table.
func (h *HTML) Table(t *Table) {
	h.Put(Markup(`<div class="scroll"`))
	h.If(t.Scrolls(), Markup(` tabindex="0" role="region" aria-label="`), t.Title, Markup(`"`))
	h.Put(Markup(">\n<table"))
	h.If(len(t.Head) == 0, Markup(` class="pairs"`))
	h.Put(Markup(">\n"))
	h.If(t.Title != "", Markup("<caption><h2>"), t.Title, Markup("</h2></caption>\n"))
	if head := t.Columns(); len(head) > 0 {
		h.Put(Markup("<thead><tr>"))
		for i := range head {
			h.cell(`th scope="col"`, "th", &head[i])
		}
		h.Put(Markup("</tr></thead>\n"))
	}
	h.Put(Markup("<tbody>"))
	for _, row := range t.Body() {
		h.Put(Markup("<tr>"))
		for i := range row {
			if row[i].Name {
				h.cell(`th scope="row"`, "th", &row[i])
			} else {
				h.cell("td", "td", &row[i])
			}
		}
		h.Put(Markup("</tr>\n"))
	}
	h.Put(Markup("</tbody></table></div>\n"))
	h.If(t.Note != "", Markup(`<p class="note">`), t.Note, Markup("</p>\n"))
}

func (h *HTML) cell(begin, end Markup, c *Cell) {
	h.Put(Markup("<"), begin)
	h.If(c.Numeric, Markup(` class="n"`))
	h.If(c.Heat != 0, Markup(` style="--heat:`), c.Heat, Markup(`%"`))
	h.Put(Markup(">"), c.Text, Markup("</"), end, Markup(">"))
}
