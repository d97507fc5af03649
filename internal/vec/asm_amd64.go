//go:build !purego

package vec

import "golang.org/x/sys/cpu"

func best() code {
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL:
		return avx512
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return avx2
	}
	return generic
}

// group is the smallest number of columns that the assembly computes.
const group = 16

// blockAsm splits the columns into whole panels, whole groups, and smaller pieces,
// which go through a buffer.
func (k Kernel) blockAsm(c code, dst []float32, ld int, x []float32, n int, p *Panels, phase []float32, from, to int) {
	b := block{k: k, c: c, exp: newExpScale(k.Gamma), x: x, d: p.dim}
	var pad [Width]float32
	for j := from; j < to; {
		out, panel := dst[j-from:], p.data[j/Width*Width*b.d:]
		if phase != nil {
			b.phase = phase[j-from:]
		}
		at := j % Width
		w := min(Width-at, to-j)
		z := panel[at/group*group:]
		switch {
		case w == Width:
			// As many panels as keep the sums of a row in the first-level cache.
			m := min((to-j)/Width, 32)
			b.panels(out, ld, n, panel, m)
			w *= m
		case n == 1 && w > group:
			// A single row is faster with a whole panel, which hides the latency of
			// the additions.
			var buf [Width]float32
			b.phase = shift(b.phase, &pad, at, w)
			b.row(buf[:], 0, panel, 1)
			copy(out[:w], buf[at:])
		case at%group == 0 && w >= group:
			w = group
			b.columns(out, ld, 0, n, group, z, 0)
		default:
			at %= group
			w = min(group-at, w)
			b.phase = shift(b.phase, &pad, at, w)
			var buf [6 * group]float32
			for r := 0; r < n; r += 6 {
				rows := min(6, n-r)
				b.columns(buf[:], group, r, rows, group, z, 0)
				for i := range rows {
					copy(out[(r+i)*ld:][:w], buf[i*group+at:])
				}
			}
		}
		j += w
	}
}

// shift returns the first w phases, if there are any, copied to index at of pad.
func shift(phase []float32, pad *[Width]float32, at, w int) []float32 {
	if phase == nil {
		return nil
	}
	clear(pad[:])
	copy(pad[at:], phase[:w])
	return pad[:]
}

// A block has the values that the parts of one Block call share.
type block struct {
	k   Kernel
	c   code
	exp expScale
	x   []float32
	d   int
	// phase has the phases of the current columns; nil except for Fourier features.
	phase []float32
}

// panels computes n rows of m whole panels.
func (b *block) panels(out []float32, ld, n int, z []float32, m int) {
	switch n % 6 {
	case 1, 4: // one row is left over after tiles of 6 and 3 rows
		n--
		b.row(out[n*ld:], n, z, m)
	}
	// The panels of a run stay in the second-level cache while all rows pass over them,
	// a few at a time, so that the sums stay in cache until they are finished.
	run, rows := max(1, (256<<10)/(4*Width*b.d)), 48
	if b.d < 16 {
		rows = 12
	}
	for first := 0; first < m; first += run {
		for r := 0; r < n; r += rows {
			for q := first; q < min(first+run, m); q++ {
				b.columns(out[r*ld+q*Width:], ld, r, min(rows, n-r), Width, z[q*Width*b.d:], q*Width)
			}
		}
	}
}

// columns computes rows r to r+n of w columns, a group or a panel, whose phases
// start at index at.
func (b *block) columns(out []float32, ld, r, n, w int, z []float32, at int) {
	_, _ = out[(n-1)*ld+w-1], z[Width*(b.d-1)+w-1]
	x := &b.x[r*b.d]
	if w == Width && b.c == avx512 {
		switch b.k.Kind {
		case RBF:
			square64AVX512(x, b.d, &z[0], &out[0], 4*ld, n)
		case Laplacian:
			absolute64AVX512(x, b.d, &z[0], &out[0], 4*ld, n)
		default:
			product64AVX512(x, b.d, &z[0], &out[0], 4*ld, n)
		}
	} else {
		for g := 0; g < w; g += group {
			b.sums16(x, &z[g], &out[g], ld, n)
		}
	}
	b.finish(out, n, w, ld, at)
}

func (b *block) sums16(x, z, out *float32, ld, n int) {
	if b.c == avx512 {
		switch b.k.Kind {
		case RBF:
			square16AVX512(x, b.d, z, out, 4*ld, n)
		case Laplacian:
			absolute16AVX512(x, b.d, z, out, 4*ld, n)
		default:
			product16AVX512(x, b.d, z, out, 4*ld, n)
		}
		return
	}
	switch b.k.Kind {
	case RBF:
		square16AVX2(x, b.d, z, out, 4*ld, n)
	case Laplacian:
		absolute16AVX2(x, b.d, z, out, 4*ld, n)
	default:
		product16AVX2(x, b.d, z, out, 4*ld, n)
	}
}

// row computes row r of m whole panels.
func (b *block) row(out []float32, r int, z []float32, m int) {
	x, d := &b.x[r*b.d], b.d
	_, _ = out[m*Width-1], z[m*Width*d-1]
	if b.c == avx512 {
		if m > 1 {
			switch b.k.Kind {
			case RBF:
				square1x128AVX512(x, d, &z[0], &out[0], m/2)
			case Laplacian:
				absolute1x128AVX512(x, d, &z[0], &out[0], m/2)
			default:
				product1x128AVX512(x, d, &z[0], &out[0], m/2)
			}
		}
		if m%2 != 0 {
			b.columns(out[(m-1)*Width:], Width, r, 1, Width, z[(m-1)*Width*d:], (m-1)*Width)
			m--
		}
	} else {
		switch b.k.Kind {
		case RBF:
			square1x64AVX2(x, d, &z[0], &out[0], m)
		case Laplacian:
			absolute1x64AVX2(x, d, &z[0], &out[0], m)
		default:
			product1x64AVX2(x, d, &z[0], &out[0], m)
		}
	}
	if m > 0 {
		b.finish(out, 1, m*Width, 0, 0)
	}
}

// finish turns the sums of n rows of w columns, a multiple of 16, into kernel
// values; at is the index of their phases.
func (b *block) finish(out []float32, n, w, ld, at int) {
	p, e, k := &out[0], b.exp, b.k
	if b.c == avx512 {
		switch k.Kind {
		case RBF, Laplacian:
			expNegAVX512(p, n, w, 4*ld, e.hi, e.lo, e.limit)
		case Polynomial:
			powerAVX512(p, n, w, 4*ld, k.Gamma, k.Coef0, k.Degree)
		case fourier:
			cosTurnsAVX512(p, n, w, 4*ld, &b.phase[at : at+w][0])
		default:
			shiftAVX512(p, n, w, 4*ld, 0)
		}
		return
	}
	switch k.Kind {
	case RBF, Laplacian:
		expNegAVX2(p, n, w, 4*ld, e.hi, e.lo, e.limit)
	case Polynomial:
		powerAVX2(p, n, w, 4*ld, k.Gamma, k.Coef0, k.Degree)
	case fourier:
		cosTurnsAVX2(p, n, w, 4*ld, &b.phase[at : at+w][0])
	default:
		shiftAVX2(p, n, w, 4*ld, 0)
	}
}

func (l *lanes) addAsm(c code, k []float32, a []float64, offset float64) {
	if len(k) == 0 {
		return
	}
	switch {
	case c == avx512 && offset == 0:
		dotMixedAVX512(&k[0], &a[0], len(k), (*[32]float64)(l))
	case c == avx512:
		dotLanesAVX512(&k[0], &a[0], len(k), offset, (*[32]float64)(l))
	case offset == 0:
		dotMixedAVX2(&k[0], &a[0], len(k), (*[32]float64)(l))
	default:
		dotLanesAVX2(&k[0], &a[0], len(k), offset, (*[32]float64)(l))
	}
}

func (l *lanes) add64Asm(c code, a, b []float64) {
	if len(a) == 0 {
		return
	}
	if c == avx512 {
		dot64AVX512(&b[0], &a[0], len(a), (*[32]float64)(l))
	} else {
		dot64AVX2(&b[0], &a[0], len(a), (*[32]float64)(l))
	}
}

func gramAsm(on code, dst *[256]int32, a, b []int16) bool {
	if len(a) < 32 || on == generic {
		return false
	}
	gramAVX2(&a[0], &b[0], len(a)/32, &dst[0])
	return true
}

// axpyMixedAsm processes a multiple of 16 elements, none in Go code, and returns
// their number.
func axpyMixedAsm(on code, c float64, k []float32, y []float64) int {
	n := len(k) / 16 * 16
	switch {
	case n == 0 || on == generic:
		return 0
	case on == avx512:
		axpyMixedAVX512(c, &k[0], &y[0], n)
	default:
		axpyMixedAVX2(c, &k[0], &y[0], n)
	}
	return n
}

// overlapAsm processes a multiple of 16 elements, none in Go code, and returns their number.
func overlapAsm(on code, sign, most float64, k []float32, y []float64) int {
	n := len(k) / 16 * 16
	switch {
	case n == 0 || on == generic:
		return 0
	case on == avx512:
		overlapAVX512(sign, most, &k[0], &y[0], n)
	default:
		overlapAVX2(sign, most, &k[0], &y[0], n)
	}
	return n
}

// distancesAsm processes a multiple of 16 elements, none in Go code, and returns their number.
func distancesAsm(on code, dst []float32, x float64, norms, dots []float64) int {
	n := len(dst) / 16 * 16
	switch {
	case n == 0 || on == generic:
		return 0
	case on == avx512:
		distancesAVX512(x, &norms[0], &dots[0], &dst[0], n)
	default:
		distancesAVX2(x, &norms[0], &dots[0], &dst[0], n)
	}
	return n
}

// axpy64Asm processes a multiple of 16 elements, none in Go code, and returns their
// number.
func axpy64Asm(on code, c float64, x, y []float64) int {
	n := len(x) / 16 * 16
	switch {
	case n == 0 || on == generic:
		return 0
	case on == avx512:
		axpy64AVX512(c, &x[0], &y[0], n)
	default:
		axpy64AVX2(c, &x[0], &y[0], n)
	}
	return n
}

// applyAsm processes a multiple of 16 sums, none in Go code, and returns their
// number.
func (k Kernel) applyAsm(c code, s []float32, e expScale) int {
	n := len(s) / group * group
	if n == 0 || c == generic {
		return 0
	}
	b := block{k: k, c: c, exp: e}
	b.finish(s, 1, n, 0, 0)
	return n
}

// shiftAsm processes a multiple of 16 elements, none in Go code, and returns their
// number.
func shiftAsm(on code, s []float32, c float32) int {
	n := len(s) / group * group
	switch {
	case n == 0 || on == generic:
		return 0
	case on == avx512:
		shiftAVX512(&s[0], 1, n, 0, c)
	default:
		shiftAVX2(&s[0], 1, n, 0, c)
	}
	return n
}

// extremesAsm searches n elements, a multiple of 8.
func extremesAsm(c code, g, a, lo, hi []float64, n int, out *[32]float64) {
	_, _, _, _ = g[n-1], a[n-1], lo[n-1], hi[n-1]
	if c == avx512 {
		extremesAVX512(&g[0], &a[0], &lo[0], &hi[0], n, out)
	} else {
		extremesAVX2(&g[0], &a[0], &lo[0], &hi[0], n, out)
	}
}

// fillAsm fills whole blocks.
func fillAsm(c code, d distribution, dst []float32, state uint64) {
	out, blocks := &dst[0], len(dst)/drawBlock
	switch {
	case d == normal && c == avx512:
		normalsAVX512(out, blocks, state)
	case d == normal:
		normalsAVX2(out, blocks, state)
	case c == avx512:
		cauchysAVX512(out, blocks, state)
	default:
		cauchysAVX2(out, blocks, state)
	}
}

// scoreBytes is the part of the first-level cache that four panels may use.
const scoreBytes = 36 << 10

// panelAsm processes one or, if possible, several panels, and returns their number.
func (s *Score) panelAsm(c code, z []float32, j int, rows *Rows, sums [][16]float64) int {
	f, n, step := &rows.features[0].at, len(sums), Width*s.panels.dim
	count := &rows.count[:n][0]
	switch {
	case c != avx512:
		score1AVX2(&z[:step][0], 4*step, &s.bias[j : j+Width][0], &s.coef[j : j+Width][0], n, count, f, &sums[0], s.gain)
	case len(z) >= 4*step && 4*4*step <= scoreBytes:
		score4AVX512(&z[0], 4*step, &s.bias[j : j+4*Width][0], &s.coef[j : j+4*Width][0], n, count, f, &sums[0], s.gain)
		return 4
	case len(z) < 2*step:
		score1AVX512(&z[:step][0], 4*step, &s.bias[j : j+Width][0], &s.coef[j : j+Width][0], n, count, f, &sums[0], s.gain)
	default:
		score2AVX512(&z[0], 4*step, &s.bias[j : j+2*Width][0], &s.coef[j : j+2*Width][0], n, count, f, &sums[0], s.gain)
		return 2
	}
	return 1
}

// wideAsm sums one panel.
func (k Kernel) wideAsm(c code, out []float64, x, z []float32) {
	_ = z[Width*len(x)-1]
	sum, step := wideProductAVX512, 64
	switch {
	case c == avx512 && k.Kind == RBF:
		sum = wideSquareAVX512
	case c == avx512 && k.Kind == Laplacian:
		sum = wideAbsoluteAVX512
	case c == avx512:
	case k.Kind == RBF:
		sum, step = wideSquareAVX2, 32
	case k.Kind == Laplacian:
		sum, step = wideAbsoluteAVX2, 32
	default:
		sum, step = wideProductAVX2, 32
	}
	for j := 0; j < Width; j += step {
		sum(&x[0], len(x), &z[j], &out[j : j+step][0])
	}
}

// wideExpAsm processes a multiple of 8 elements, none in Go code, and returns their
// number.
func wideExpAsm(c code, s []float64, scale float64) int {
	n := len(s) / 8 * 8
	switch {
	case n == 0 || c == generic:
		return 0
	case c == avx512:
		wideExpAVX512(&s[0], n, scale)
	default:
		wideExpAVX2(&s[0], n, scale)
	}
	return n
}

// noPhase is the phase of 16 columns without phases.
var noPhase [16]float32

func cosinesAsm(c code, dst []float32) int {
	n := len(dst) / 16
	switch {
	case c == generic || n == 0:
		return 0
	case c == avx512:
		cosTurnsAVX512(&dst[0], n, 16, 64, &noPhase[0])
	default:
		cosTurnsAVX2(&dst[0], n, 16, 64, &noPhase[0])
	}
	return 16 * n
}
