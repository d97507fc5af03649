package vec

// Apply turns sums over features into kernel values, in place: squared
// distances for RBF, l1 distances for Laplacian, inner products for the
// others. It is for layouts other than Panels.
func (k Kernel) Apply(s []float32) { k.finish(s, newExpScale(k.Gamma)) }
