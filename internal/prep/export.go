package prep

// Exported is the plain form of a Transform, as docs/formats/plain.md describes
// it. All fields are always there.
type Exported struct {
	// Hash is the number of slots into which features are hashed first, or 0.
	Hash  int    `json:"hash"`
	Scale string `json:"scale"`
	// Common is the factor of the scale of that name.
	Common float64 `json:"common"`
	// Feature Index[k] becomes (v − Shift[k])·Factor[k]; a feature that is not
	// listed has shift 0 and factor 0. Factor 0 stands for v − Shift[k] limited
	// to [-1,1]. Fill says that the features listed which a vector does not
	// have count as 0 and are shifted too.
	Fill   bool      `json:"fill"`
	Index  []int32   `json:"index"`
	Shift  []float64 `json:"shift"`
	Factor []float64 `json:"factor"`
	// Clip holds the least and the largest value of a scaled feature whose factor
	// is not 0.
	Clip [2]float64 `json:"clip"`
}

// Export returns the plain form of the transform. That of Running has the means
// and factors as they are.
func (t *Transform) Export() Exported {
	e := Exported{
		Hash: t.hashDim, Scale: t.Scale(), Common: t.common, Fill: t.dense,
		Index: append([]int32{}, t.idx...), Shift: append([]float64{}, t.shift...), Factor: append([]float64{}, t.factor...),
	}
	e.Clip[0], e.Clip[1] = t.Bounds()
	if t.dense {
		for j := range t.factor {
			e.Index = append(e.Index, int32(j))
		}
	} else {
		e.Shift = make([]float64, len(t.factor))
	}
	return e
}

// Features returns how many features every preprocessed vector has, or may
// have, whatever x is: those of the scale or the slots of the hash. 0: that
// depends on x alone.
func (t *Transform) Features() int {
	if t.dense {
		return max(t.hashDim, len(t.factor))
	}
	return t.hashDim
}
