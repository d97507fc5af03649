package prep

import "slices"

// Weighted returns t with scaled feature j multiplied by weights[j], in (0,1]. It returns nil
// for Unit, which depends on the example, and Running, which changes.
func (t *Transform) Weighted(weights []float64) *Transform {
	w := *t
	switch t.Scale() {
	case Unit, Running:
		return nil
	case None, Common:
		factor := 1.0
		if t.scale == Common {
			factor = t.common
		}
		w.scale, w.common, w.idx, w.factor = Standard, 0, make([]int32, len(weights)), slices.Clone(weights)
		for j := range weights {
			w.idx[j] = int32(j)
			w.factor[j] *= factor
		}
		return &w
	}
	w.factor = slices.Clone(t.factor)
	for k := range w.factor {
		j := k
		if !t.dense {
			j = int(t.idx[k])
		}
		if j < len(weights) {
			w.factor[k] *= weights[j]
		}
	}
	w.prepare()
	return &w
}
