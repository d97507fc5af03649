package main

import (
	"bufio"
	"math"
	"os"
	"strconv"
)

// scores is a hook of a run that writes each prequential decision to a file of
// csv.
type scores struct {
	f   *os.File
	w   *bufio.Writer
	row []byte
}

func newScores(path string) (*scores, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	s := &scores{f: f, w: bufio.NewWriter(f)}
	s.w.WriteString("decision,probability,label\n") // its errors come with Flush
	return s, nil
}

// Scored implements engine.ScoredHook.
func (s *scores) Scored(decision, probability, label float64) {
	s.row = append(strconv.AppendFloat(s.row[:0], decision, 'g', -1, 64), ',')
	if !math.IsNaN(probability) {
		s.row = strconv.AppendFloat(s.row, probability, 'g', -1, 64)
	}
	s.row = append(strconv.AppendFloat(append(s.row, ','), label, 'g', -1, 64), '\n')
	s.w.Write(s.row)
}

func (s *scores) close() error {
	if err := s.w.Flush(); err != nil {
		s.f.Close()
		return err
	}
	return s.f.Close()
}
