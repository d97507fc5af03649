//go:build !amd64 || purego

package vec

func best() code { return generic }

func (k Kernel) blockAsm(code, []float32, int, []float32, int, *Panels, []float32, int, int) {
	panic("vec: no assembly in this build")
}

func (l *lanes) addAsm(code, []float32, []float64, float64) {
	panic("vec: no assembly in this build")
}

func (l *lanes) add64Asm(code, []float64, []float64) {
	panic("vec: no assembly in this build")
}

func gramAsm(code, *[256]int32, []int16, []int16) bool { return false }

func axpyMixedAsm(code, float64, []float32, []float64) int { return 0 }

func overlapAsm(code, float64, float64, []float32, []float64) int { return 0 }

func distancesAsm(code, []float32, float64, []float64, []float64) int { return 0 }

func axpy64Asm(code, float64, []float64, []float64) int { return 0 }

func (k Kernel) applyAsm(code, []float32, expScale) int { return 0 }

func shiftAsm(code, []float32, float32) int { return 0 }

func extremesAsm(code, []float64, []float64, []float64, []float64, int, *[32]float64) {
	panic("vec: no assembly in this build")
}

func fillAsm(code, distribution, []float32, uint64) {
	panic("vec: no assembly in this build")
}

func (s *Score) panelAsm(code, []float32, int, *Rows, [][16]float64) int {
	panic("vec: no assembly in this build")
}

func (s *Sparse) cosAsm(code, []float32, int, *Panels, []float32, int, int) {
	panic("vec: no assembly in this build")
}

func (k Kernel) wideAsm(code, []float64, []float32, []float32) {
	panic("vec: no assembly in this build")
}

func wideExpAsm(code, []float64, float64) int { return 0 }

func cosinesAsm(code, []float32) int { return 0 }
