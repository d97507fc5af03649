// Package report writes what a run has come to as a page for people, with a
// summary and charts.
package report

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/streamsvm/streamsvm/internal/app/chart"
)

// Report is the content of a report.
type Report struct {
	Title string
	// Lead says in a sentence or two what was run.
	Lead   string
	Tables []Table
	Charts []chart.Chart
	// Foot is printed small at the end, e.g. the program's version.
	Foot string
}

// Table is a table of text.
type Table = chart.Table

// page returns the page.
func (r *Report) page() (string, error) {
	h := new(chart.HTML)
	h.Put(chart.Markup(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src '`), chart.Digest(), chart.Markup(`'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>`), r.Title, chart.Markup("</title>\n"))
	h.Style()
	h.Put(chart.Markup("\n</head>\n<body>\n<header class=\"top\"><h1>"), r.Title, chart.Markup("</h1>"))
	h.Theme()
	h.Put(chart.Markup("</header>\n<main>\n"))
	h.If(r.Lead != "", chart.Markup(`<p class="soft">`), r.Lead, chart.Markup("</p>"))
	h.Put(chart.Markup("\n"))
	if err := h.Charts(r.Charts); err != nil {
		return "", err
	}
	h.Tables(r.Tables)
	h.Put(chart.Markup("</main>\n"))
	h.If(r.Foot != "", chart.Markup("<footer>"), r.Foot, chart.Markup("</footer>\n"))
	h.Inline()
	h.Put(chart.Markup("\n</body>\n</html>\n"))
	return h.String(), nil
}

// Write writes index.html into dir, which it creates if need be, and returns
// its path. The page needs no other file.
func Write(dir string, r *Report) (string, error) {
	text, err := r.page()
	if err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	path := filepath.Join(dir, "index.html")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	return path, nil
}
