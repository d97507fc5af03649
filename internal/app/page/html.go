package page

import (
	"encoding/json"
	"fmt"
	"html"
	"strconv"
	"strings"
)

// writer writes HTML. It does what html/template would do for these pages. A
// program with that package keeps every exported method of every type, since a
// template may call any of them, and is a sixth larger.
type writer struct{ strings.Builder }

// markup is HTML that is written as it is. It is made of constants only.
type markup string

// put writes the parts one after the other. All but markup is text: it is escaped
// so that it is safe between tags and in quoted attributes. No line breaks before a %.
func (w *writer) put(parts ...any) {
	for _, p := range parts {
		if m, ok := p.(markup); ok {
			w.WriteString(string(m))
		} else {
			w.WriteString(html.EscapeString(strings.ReplaceAll(fmt.Sprint(p), " %", "\u00a0%")))
		}
	}
}

// putIf writes the parts if c holds.
func (w *writer) putIf(c bool, parts ...any) {
	if c {
		w.put(parts...)
	}
}

// element writes an element that holds text only.
func (w *writer) element(tag markup, text any) {
	name, _, _ := strings.Cut(string(tag), " ")
	w.put(markup("<"), tag, markup(">"), text, markup("</"+name+">"))
}

// chart writes a chart and its numbers as a table.
func (w *writer) chart(c *Chart) error {
	// Marshal writes <, > and & as JSON escapes, so nothing in the data ends the
	// script element.
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	w.put(markup("<figure class=\"chart\">\n<h3>"), c.Title, markup("</h3>\n<div class=\"plot\"></div>\n"))
	if c.Caption != "" {
		w.element("figcaption", c.Caption)
	}
	w.put(markup("<details><summary>Numbers</summary>\n"))
	w.scroll(c.Title+": numbers", ` class="numbers"`)
	w.put(markup("<thead><tr>"))
	head, rows := c.numbers()
	for _, text := range head {
		w.element(`th scope="col"`, text)
	}
	w.put(markup("</tr></thead>\n"))
	for _, row := range rows {
		w.put(markup("<tr>"))
		for _, text := range row {
			w.element("td", text)
		}
		w.put(markup("</tr>\n"))
	}
	w.put(markup("</table></div></details>\n<script type=\"application/json\">"), markup(data), markup("</script>\n</figure>\n"))
	return nil
}

// Table is a table of text. The first cell of a row is its name. Without a Head
// the table lists names and values.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
	// Heat gives the cells after the first of each row a background: 0 is none, 1
	// the strongest.
	Heat [][]float64
	Note string // below the table
}

// numeric reports whether column j holds numbers, which are aligned to the right.
func (t *Table) numeric(j int) bool {
	found := false
	for _, row := range t.Rows {
		if j >= len(row) || row[j] == "" {
			continue
		}
		text := strings.NewReplacer(" %", "", "\u00a0", "").Replace(row[j])
		if _, err := strconv.ParseFloat(text, 64); err != nil && text != "-" && text != "–" {
			return false
		}
		found = true
	}
	return found && t.Head != nil
}

// scroll begins a table in a box that scrolls where the screen is narrow, which must be
// possible by keyboard.
func (w *writer) scroll(title string, class markup) {
	w.put(markup(`<div class="scroll" tabindex="0" role="region" aria-label="`), title, markup("\">\n<table"), class,
		markup(`><caption class="unseen">`), title, markup("</caption>\n"))
}

func (w *writer) table(t *Table) {
	w.element("h3", t.Title)
	class := markup("")
	if t.Head == nil {
		class = ` class="pairs"`
	}
	w.scroll(t.Title, class)
	w.putIf(t.Head != nil, markup("<thead><tr>"))
	align := make([]markup, len(t.Head))
	for j, text := range t.Head {
		if t.numeric(j) {
			align[j] = ` class="n"`
		}
		w.element(`th scope="col"`+align[j], text)
	}
	w.putIf(t.Head != nil, markup("</tr></thead>"))
	w.put(markup("\n<tbody>"))
	for i, row := range t.Rows {
		w.put(markup("<tr>"))
		for j, text := range row {
			tag := markup("td")
			if j == 0 {
				tag = `th scope="row"`
			}
			if j < len(align) {
				tag += align[j]
			}
			if j > 0 && i < len(t.Heat) && j <= len(t.Heat[i]) && t.Heat[i][j-1] > 0 {
				tag += markup(fmt.Sprintf(` style="--heat:%.0f%%"`, 100*t.Heat[i][j-1]))
			}
			w.element(tag, text)
		}
		w.put(markup("</tr>\n"))
	}
	w.put(markup("</tbody></table></div>\n"))
	if t.Note != "" {
		w.element(`p class="note"`, t.Note)
	}
}
