package onnx

import (
	"fmt"
	"slices"
)

// splines is a generalized additive model with pairwise interactions: a linear form of hat
// functions, and a quadratic form of coarse ones.
func (c *converter) splines(m *splinesForm, x ref, s space) (ref, error) {
	d := len(m.Features)
	if d == 0 || len(m.Knots) != d || len(m.Coarse) != d || len(m.Weights) != d {
		return "", fmt.Errorf("%d features, knots of %d and %d, weights of %d", d, len(m.Knots), len(m.Coarse), len(m.Weights))
	}
	fine, coarse := longest(m.Knots), longest(m.Coarse)
	columns, there, weights := make([]int64, d), make([]float64, d), make([]float64, d*fine)
	number := map[int]int{} // by feature
	for i, j := range m.Features {
		if j < 0 || len(m.Weights[i]) != len(m.Knots[i]) || len(m.Knots[i]) == 0 || len(m.Coarse[i]) == 0 {
			return "", fmt.Errorf("feature %d: %d and %d knots, %d weights", j, len(m.Knots[i]), len(m.Coarse[i]), len(m.Weights[i]))
		}
		if at, ok := s.column(j); ok { // else no vector has it
			columns[i], there[i] = int64(at), 1
		}
		number[j] = i
		copy(weights[i*fine:], m.Weights[i])
	}
	// Pairs are a quadratic form, of the few features that have any.
	var paired []int64
	place := map[int]int{} // in paired, by number
	for _, p := range m.Pairs {
		for _, j := range p.Features {
			i, ok := number[j]
			if !ok {
				return "", fmt.Errorf("a pair of features %v, %d has no knots", p.Features, j)
			}
			if _, ok := place[i]; !ok {
				place[i] = len(paired)
				paired = append(paired, int64(i))
			}
		}
	}
	size := len(paired) * coarse
	if err := c.room("the weights of pairs", size, size); err != nil {
		return "", err
	}
	matrix, knots := make([]float64, size*size), make([][]float64, len(paired))
	for k, i := range paired {
		knots[k] = m.Coarse[i]
	}
	for _, p := range m.Pairs {
		a, b := place[number[p.Features[0]]], place[number[p.Features[1]]]
		if len(p.Weights) != len(knots[a]) {
			return "", fmt.Errorf("a pair of features %v has %d rows of weights for %d knots", p.Features, len(p.Weights), len(knots[a]))
		}
		for i, row := range p.Weights {
			if len(row) != len(knots[b]) {
				return "", fmt.Errorf("a pair of features %v has %d weights for %d knots", p.Features, len(row), len(knots[b]))
			}
			copy(matrix[(a*coarse+i)*size+b*coarse:], row)
		}
	}
	y := c.node("", "Gather", []attr{{"axis", 1}}, x, c.ints(columns...))
	if slices.Contains(there, 0) {
		y = c.op("Mul", y, c.tensor(there, d))
	}
	f := c.op("Add", c.op("MatMul", c.hats(y, m.Knots, fine), c.tensor(weights, d*fine, 1)), c.scalar(m.Bias))
	if size == 0 {
		return f, nil
	}
	h := c.hats(c.node("", "Gather", []attr{{"axis", 1}}, y, c.ints(paired...)), knots, coarse)
	return c.op("Add", f, c.sum(c.op("Mul", c.op("MatMul", h, c.tensor(matrix, size, size)), h))), nil
}

// longest returns the largest length.
func longest(lists [][]float64) (n int) {
	for _, l := range lists {
		n = max(n, len(l))
	}
	return n
}

// hats returns the hat functions of x, [N,d]: n for each feature, [N,d·n]. Those beyond a
// feature's knots are 0.
func (c *converter) hats(x ref, knots [][]float64, n int) ref {
	d := len(knots)
	var index []float64
	for i := range n {
		index = append(index, float64(i))
	}
	place := c.op("Mul", c.op("Unsqueeze", x, c.ints(2)), c.scalar(0)) // [N,d,1]
	if n > 1 {
		from, width, there := make([]float64, d*(n-1)), make([]float64, d*(n-1)), make([]float64, d*(n-1))
		for j, k := range knots {
			for i := range n - 1 {
				at := j*(n-1) + i
				if width[at] = 1; i+1 < len(k) {
					from[at], width[at], there[at] = k[i], k[i+1]-k[i], 1
				}
			}
		}
		past := c.op("Sub", c.op("Unsqueeze", x, c.ints(2)), c.tensor(from, d, n-1)) // [N,d,n−1]
		part := c.op("Mul", c.clip(c.op("Div", past, c.tensor(width, d, n-1)), 0, 1), c.tensor(there, d, n-1))
		place = c.node("", "ReduceSum", []attr{{"keepdims", 1}}, part, c.ints(2))
	}
	away := c.op("Abs", c.op("Sub", place, c.tensor(index, n))) // [N,d,n]
	return c.op("Reshape", c.op("Max", c.op("Sub", c.scalar(1), away), c.scalar(0)), c.ints(-1, int64(d*n)))
}
