package chart

import (
	"strconv"
	"strings"
)

// Table is a table of text. The first cell of a row says what the row is about.
// Without a Head it lists names and values.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
	// Heat gives the cells after the first of each row a background, from 0, none,
	// to 1; nil gives none.
	Heat [][]float64
	Note string // below the table
}

// Cell is a cell of a Table.
type Cell struct {
	Text    string
	Name    bool // of the row or, in the head, of the column
	Numeric bool
	Heat    int // in percent
}

// Scrolls reports whether the table may be larger than its place: it can then be
// scrolled with the keyboard.
func (t *Table) Scrolls() bool { return len(t.Head) > 4 || len(t.Rows) > 15 }

// numeric reports whether column j holds numbers.
func (t *Table) numeric(j int) bool {
	if t.Head == nil {
		return false
	}
	digits := false
	for _, row := range t.Rows {
		if j >= len(row) || row[j] == "" || row[j] == "-" || row[j] == "–" {
			digits = digits || j < len(row) && row[j] != ""
			continue
		}
		text := strings.ReplaceAll(strings.TrimSuffix(row[j], " %"), " ", "")
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return false
		}
		digits = true
	}
	return digits
}

// Columns returns the cells of the head, nil without one.
func (t *Table) Columns() (head []Cell) {
	for j, text := range t.Head {
		head = append(head, Cell{Text: text, Name: true, Numeric: t.numeric(j)})
	}
	return head
}

// Body returns the cells of the rows.
func (t *Table) Body() (body [][]Cell) {
	numeric := map[int]bool{}
	for j := range t.Head {
		numeric[j] = t.numeric(j)
	}
	for i, row := range t.Rows {
		var cells []Cell
		for j, text := range row {
			c := Cell{Text: text, Name: j == 0, Numeric: numeric[j]}
			if j > 0 && i < len(t.Heat) && j-1 < len(t.Heat[i]) {
				c.Heat = int(100*t.Heat[i][j-1] + 0.5)
			}
			cells = append(cells, c)
		}
		body = append(body, cells)
	}
	return body
}
