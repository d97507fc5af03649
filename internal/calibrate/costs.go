package calibrate

// Costs are what it costs, on average, when a class is predicted as another one, by class;
// of two classes the negative one comes first. Classes beyond the list cost 1. Nil: the
// most probable class is predicted, or the one with the largest score.
type Costs []float64

func (c Costs) of(class int) float64 {
	if class < len(c) {
		return c[class]
	}
	return 1
}

// Positive reports whether predicting the positive one of two labels is expected to cost
// no more than predicting the negative one, given its probability.
func (c Costs) Positive(p float64) bool { return p*c.of(1) >= (1-p)*c.of(0) }

// Best returns the class whose prediction has the least expected cost, given the
// probabilities: the first one of several.
func (c Costs) Best(probabilities []float64) int {
	best := 0
	for k, p := range probabilities {
		if p*c.of(k) > probabilities[best]*c.of(best) {
			best = k
		}
	}
	return best
}

// Cost returns what it costs to predict a class, given that of the label.
func (c Costs) Cost(predicted, label int) float64 {
	if predicted == label {
		return 0
	}
	return c.of(label)
}
