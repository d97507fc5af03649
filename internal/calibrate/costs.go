package calibrate

// Costs are the mean costs of predicting another class, by true class; of two classes the
// negative one comes first. Classes beyond the list cost 1. With nil, the most probable
// class is predicted, or the one with the largest score.
type Costs []float64

func (c Costs) of(class int) float64 {
	if class < len(c) {
		return c[class]
	}
	return 1
}

// Positive reports whether predicting the positive one of two labels has no higher
// expected cost than the negative one, given the probability p of the positive one.
func (c Costs) Positive(p float64) bool { return p*c.of(1) >= (1-p)*c.of(0) }

// Best returns the class with the least expected cost of predicting it, given the
// probabilities; of several, the first.
func (c Costs) Best(probabilities []float64) int {
	best := 0
	for k, p := range probabilities {
		if p*c.of(k) > probabilities[best]*c.of(best) {
			best = k
		}
	}
	return best
}

// Cost returns the cost of predicting a class, given the class of the label.
func (c Costs) Cost(predicted, label int) float64 {
	if predicted == label {
		return 0
	}
	return c.of(label)
}
