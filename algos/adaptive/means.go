package adaptive

import "github.com/streamsvm/streamsvm/internal/prep"

// Means returns the mean of each feature in the stream so far; nil if it is not known.
func (m *ensemble) Means() []float64 {
	k, _ := m.only()
	return means(m.inputs, k)
}

// Means returns the mean of each feature in the stream so far; nil if it is not known.
func (m *parts) Means() []float64 { return means(m.inputs, m.kernels[growing]) }

func means(in *inputs, k *kernelFunction) []float64 {
	switch {
	case in != nil:
		return prep.Inverses(in.asinh, in.mean)
	case k != nil:
		return k.transform.Shift()
	}
	return nil
}
