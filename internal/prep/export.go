package prep

// Exported is the plain form of a Transform, as described in docs/formats/plain.md.
// All fields are always present, except the last four.
type Exported struct {
	// Hash is the number of slots into which features are hashed before scaling, or 0.
	Hash  int    `json:"hash"`
	Scale string `json:"scale"`
	// Common is the factor of the scale of that name.
	Common float64 `json:"common"`
	// Feature Index[k] becomes (v − Shift[k])·Factor[k]; a feature that is not
	// listed has shift 0 and factor 0. Factor 0 stands for v − Shift[k] limited to
	// [-1,1]. Fill says that listed features absent from a vector count as 0 and
	// are shifted too.
	Fill   bool      `json:"fill"`
	Index  []int32   `json:"index"`
	Shift  []float64 `json:"shift"`
	Factor []float64 `json:"factor"`
	// Clip has the smallest and the largest value of a scaled feature with a
	// nonzero factor.
	Clip [2]float64 `json:"clip"`
	// If not nil, they have an element for each feature in Index. Where AsinhSize[k] is not
	// 0, v is first replaced by asinh((v − AsinhCenter[k])/AsinhSize[k]).
	AsinhCenter []float64 `json:"asinh_center,omitempty"`
	AsinhSize   []float64 `json:"asinh_size,omitempty"`
	// Only in an expert's preprocessing: OnlyListed says that features that are not listed
	// become 0, and UnitLength that the scaled vector is divided by its length.
	OnlyListed bool `json:"only_listed,omitempty"`
	UnitLength bool `json:"unit_length,omitempty"`
}

// Shift returns the value of each feature that becomes 0: its mean or, with MinMax, its
// smallest value. It returns nil if features are not shifted or are hashed.
func (t *Transform) Shift() []float64 {
	if t.hashDim > 0 || t.shift == nil {
		return nil
	}
	return Inverses(t.asinh, t.shift)
}

// Export returns the plain form of the transform. For Running it has the present
// means and factors.
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
	e.SetAsinh(t.asinh)
	return e
}

// Features returns how many features every preprocessed vector has, or can have: the
// features of the scale or the slots of the hash; 0 if it depends on the vector.
func (t *Transform) Features() int {
	if t.dense {
		return max(t.hashDim, len(t.factor))
	}
	return t.hashDim
}

// SetAsinh sets the maps of the listed features; list has those of the first ones or is nil.
func (e *Exported) SetAsinh(list []Asinh) {
	if list == nil {
		return
	}
	e.AsinhCenter, e.AsinhSize = make([]float64, len(e.Index)), make([]float64, len(e.Index))
	for k, a := range list[:min(len(list), len(e.Index))] {
		e.AsinhCenter[k], e.AsinhSize[k] = a.Center, a.Size
	}
}
