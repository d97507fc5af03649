// Package report writes what a run has come to as a directory for people: a
// page with the summary and plots, and the plots as PNG files.
package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"os"
	"path/filepath"

	"github.com/streamsvm/streamsvm/internal/eval"
)

// Report is the content of a report.
type Report struct {
	Title string
	// Lead says in a sentence or two what was run.
	Lead   string
	Tables []Table
	Plots  []Plot
	// Foot is printed small at the end, e.g. the program's version.
	Foot string
}

// Table is a table of text. Without a Head it lists names and values.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
}

// Plot is a line plot.
type Plot struct {
	// File is the name of the PNG file, without a directory.
	File           string
	Title          string
	Caption        string // below the plot, on the page
	XLabel, YLabel string
	Series         []Series
	// Marks are vertical lines, e.g. where a stream changes; MarkName is their
	// entry in the legend.
	Marks    []float64
	MarkName string
	// YMin and YMax limit the vertical axis where YMin < YMax; otherwise they
	// are chosen such that the later nine tenths of every series show.
	YMin, YMax float64
}

// Look is the way in which a series is drawn.
type Look int

const (
	Strong Look = iota // the main line
	Faint              // the noisy line behind it
	Dashed             // a reference
)

// Series is one line. Points of which Y is NaN or infinite are left out.
type Series struct {
	Name string
	X, Y []float64 // of equal length, X increasing
	Look Look
}

// Prequential returns the plot of a curve: accuracy over all examples and over
// the window, or the mean absolute error of a regression. majority is the share
// of the larger class, drawn for reference; NaN leaves it out.
func Prequential(points []eval.Point, regress bool, window int, majority float64) Plot {
	n := len(points)
	x, all, recent := make([]float64, n), make([]float64, n), make([]float64, n)
	for i, p := range points {
		x[i], all[i], recent[i] = float64(p.Examples), p.All, p.Window
	}
	what, title := "accuracy", "Prequential accuracy"
	if regress {
		what, title = "mean absolute error", "Prequential error"
	}
	p := Plot{
		File: "prequential.png", Title: title, XLabel: "examples", YLabel: what,
		Caption: "Each example is predicted first and learned from afterwards, so every prediction is of an example not seen before.",
		Series: []Series{
			{Name: fmt.Sprintf("last %s examples", thousands(float64(window))), X: x, Y: recent, Look: Faint},
			{Name: "all examples so far", X: x, Y: all, Look: Strong},
		},
	}
	if !regress && n > 0 && !math.IsNaN(majority) {
		p.Series = append(p.Series, Series{
			Name: "always the larger class", X: []float64{x[0], x[n-1]}, Y: []float64{majority, majority}, Look: Dashed,
		})
	}
	return p
}

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// Write writes index.html and the plots into dir, which it creates if need be.
// It returns the path of index.html.
func Write(dir string, r *Report) (string, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	for i := range r.Plots {
		p := &r.Plots[i]
		if p.File == "" || p.File != filepath.Base(p.File) {
			return "", fmt.Errorf("report: %q is not the name of a file", p.File)
		}
		png, err := p.PNG()
		if err != nil {
			return "", fmt.Errorf("report: plot %s: %w", p.File, err)
		}
		if err := os.WriteFile(filepath.Join(dir, p.File), png, 0o666); err != nil {
			return "", fmt.Errorf("report: %w", err)
		}
	}
	var b bytes.Buffer
	if err := page.Execute(&b, r); err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	path := filepath.Join(dir, "index.html")
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	return path, nil
}
