package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// productNonzeros emits the products of one row, given by its nonzeros, with the
// given number of panels at a time.
func productNonzeros(s isa, panels int) {
	signature := "func(z *float32, n int, features *int32, out *float32)"
	if panels > 1 {
		signature = "func(z *float32, step, n int, features *int32, out *float32)"
	}
	s.text(fmt.Sprintf("productNonzeros%d", panels), signature, fmt.Sprintf(
		"sets out[c] = Σ x·z over n > 0 features for the %d columns c\nof panels at z, step bytes apart.", 64*panels))
	z, n := Load(Param("z"), GP64()), Load(Param("n"), GP64())
	f, out := Load(Param("features"), GP64()), Load(Param("out"), GP64())
	var step Register
	if panels > 1 {
		step = Load(Param("step"), GP64())
	}
	sum := make([]VecVirtual, panels*panelBytes/s.bytes)
	for j := range sum {
		sum[j] = s.vec()
		s.zero(sum[j])
	}
	s.features(n, f, z, step, sum)
	for j := range sum {
		VMOVUPS(sum[j], Mem{Base: out, Disp: j * s.bytes})
	}
	VZEROUPPER()
	RET()
}

// features emits the loop that adds the products of left > 0 features at f with the
// columns of panels at z, step bytes apart, to sums.
func (s isa) features(left, f, z, step Register, sums []VecVirtual) {
	each := panelBytes / s.bytes
	Label("feature")
	at, x := GP64(), s.vec()
	MOVLQSX(Mem{Base: f}, at)
	VBROADCASTSS(Mem{Base: f, Disp: 4}, x)
	ADDQ(z, at)
	ADDQ(Imm(8), f)
	for j := range sums {
		if j > 0 && j%each == 0 {
			ADDQ(step, at)
		}
		VFMADD231PS(Mem{Base: at, Disp: j % each * s.bytes}, x, sums[j])
	}
	DECQ(left)
	JNZ(LabelRef("feature"))
}
