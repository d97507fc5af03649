// Package report writes what a run has come to as a page for people, with a
// summary and charts.
package report

import (
	"bytes"
	_ "embed"
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

// Digest is used by the page.
func (r *Report) Digest() string { return chart.Digest() }

// Table is a table of text.
type Table = chart.Table

//go:embed page.html
var pageText string

var page = chart.Page(pageText)

// Write writes index.html into dir, which it creates if need be, and returns
// its path. The page needs no other file.
func Write(dir string, r *Report) (string, error) {
	var b bytes.Buffer
	if err := page.Execute(&b, r); err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	path := filepath.Join(dir, "index.html")
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	return path, nil
}
