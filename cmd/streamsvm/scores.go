package main

import (
	"bufio"
	"math"
	"os"
	"strconv"
)

// scores is a hook of a run that writes each prequential decision to a csv file.
type scores struct {
	f   *os.File
	w   *bufio.Writer
	row []byte
	// With a gate, the champion's decisions on examples whose row is not written yet.
	served   []float64
	champion bool
}

func newScores(path string, champion bool) (*scores, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	s := &scores{f: f, w: bufio.NewWriter(f), champion: champion}
	head := "decision,probability,label" // its errors come with Flush
	if champion {
		head += ",champion"
	}
	s.w.WriteString(head + "\n")
	return s, nil
}

// Scored implements engine.ScoredHook.
func (s *scores) Scored(decision, probability, label float64) {
	s.row = append(strconv.AppendFloat(s.row[:0], decision, 'g', -1, 64), ',')
	if !math.IsNaN(probability) {
		s.row = strconv.AppendFloat(s.row, probability, 'g', -1, 64)
	}
	s.row = strconv.AppendFloat(append(s.row, ','), label, 'g', -1, 64)
	if s.champion {
		s.row = append(s.row, ',')
		if f := s.served[0]; !math.IsNaN(f) {
			s.row = strconv.AppendFloat(s.row, f, 'g', -1, 64)
		}
		s.served = s.served[1:]
	}
	s.w.Write(append(s.row, '\n'))
}

// Served implements engine.ServedHook.
func (s *scores) Served(decision float64) { s.served = append(s.served, decision) }

func (s *scores) close() error {
	if err := s.w.Flush(); err != nil {
		s.f.Close()
		return err
	}
	return s.f.Close()
}
