// Growthplot draws the growth.csv that bench/semi/growth.py writes: processor
// seconds and peak memory against the number of examples.
//
//	go run -C bench ./semi/growthplot growth.csv growth.png
package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"math"
	"os"
	"slices"
	"strconv"

	"github.com/streamsvm/streamsvm/internal/app/report"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: growthplot growth.csv growth.png")
		os.Exit(64)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "growthplot:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	var images []image.Image
	for _, p := range []struct {
		column, title, label string
		scale                func(float64) float64
	}{
		{"cpu_seconds", "tsgs3vm: time", "processor seconds, powers of ten", math.Log10},
		{"rss_mib", "tsgs3vm: memory", "peak MiB", func(v float64) float64 { return v }},
	} {
		plot := report.Plot{Title: p.title, XLabel: "examples, powers of ten", YLabel: p.label}
		if err := fill(&plot, rows, p.column, p.scale); err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
		data, err := plot.PNG()
		if err != nil {
			return err
		}
		img, err := png.Decode(bytes.NewReader(data))
		if err != nil {
			return err
		}
		images = append(images, img)
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, stack(images)); err != nil {
		return err
	}
	return os.WriteFile(to, buf.Bytes(), 0o644)
}

// fill adds a series for each learner of the table.
func fill(plot *report.Plot, rows [][]string, column string, scale func(float64) float64) error {
	if len(rows) == 0 {
		return fmt.Errorf("no rows")
	}
	x, y := slices.Index(rows[0], "examples"), slices.Index(rows[0], column)
	if x < 0 || y < 0 || rows[0][0] != "learner" {
		return fmt.Errorf("the first row names no learner, examples and %s", column)
	}
	low, high := math.Inf(1), math.Inf(-1)
	for i, row := range rows[1:] {
		n, err := strconv.ParseFloat(row[x], 64)
		if err == nil {
			var v float64
			if v, err = strconv.ParseFloat(row[y], 64); err == nil {
				last := len(plot.Series) - 1
				if last < 0 || plot.Series[last].Name != row[0] {
					plot.Series = append(plot.Series, report.Series{Name: row[0]})
					last++
				}
				s := &plot.Series[last]
				s.X, s.Y = append(s.X, math.Log10(n)), append(s.Y, scale(v))
				low, high = min(low, scale(v)), max(high, scale(v))
			}
		}
		if err != nil {
			return fmt.Errorf("row %d: %w", i+2, err)
		}
	}
	air := (high - low) / 20
	plot.YMin, plot.YMax = low-air, high+air // else the shortest runs would not show
	return nil
}

// stack puts images one below the other.
func stack(images []image.Image) image.Image {
	width, height := 0, 0
	for _, img := range images {
		width, height = max(width, img.Bounds().Dx()), height+img.Bounds().Dy()
	}
	out := image.NewRGBA(image.Rect(0, 0, width, height))
	at := 0
	for _, img := range images {
		b := img.Bounds()
		draw.Draw(out, image.Rect(0, at, b.Dx(), at+b.Dy()), img, b.Min, draw.Src)
		at += b.Dy()
	}
	return out
}
