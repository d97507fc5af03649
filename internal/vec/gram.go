package vec

// Gram sets dst[16i+j] = Σ_p a[32p+2i]·b[32p+2j] + a[32p+2i+1]·b[32p+2j+1]: the
// products of 16 columns of a matrix with 16 others. a and b hold these columns as
// pairs of rows, side by side. Both have the same length, a multiple of 32. Sums wrap
// around beyond 32 bits, so they are the same in any order.
func Gram(dst *[256]int32, a, b []int16) { gramOn(active, dst, a, b) }

func gramOn(on code, dst *[256]int32, a, b []int16) {
	b = b[:len(a)/32*32]
	if gramAsm(on, dst, a, b) {
		return
	}
	clear(dst[:])
	for len(b) > 0 {
		for i := range 16 {
			x, y := int32(a[2*i]), int32(a[2*i+1])
			for j, row := 0, dst[16*i:][:16]; j < 16; j++ {
				row[j] += x*int32(b[2*j]) + y*int32(b[2*j+1])
			}
		}
		a, b = a[32:], b[32:]
	}
}
