package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// productPairs emits the products of rows that stand by their nonzeros in
// pairs of features: a pair's part of the panel is held in registers while the
// rows with a nonzero there pass by, whose sums are in the first-level cache. A
// sum is loaded and stored once for two products, and neighbours of nonzeros
// tend to be nonzeros.
func productPairs(s isa) {
	columns := 4 * s.bytes / 4
	s.text("productPairs", "func(z *float32, n int, heads, cells *int32, sums *float32)", fmt.Sprintf(
		"adds x·z to the sums of %d columns of a panel at z for n > 0 pairs\n"+
			"of features, each of them with one cell or more; rows of sums are 256 bytes apart.", columns))
	z, n := Load(Param("z"), GP64()), Load(Param("n"), GP64())
	heads, cells, sums := Load(Param("heads"), GP64()), Load(Param("cells"), GP64()), Load(Param("sums"), GP64())
	nv := columns * 4 / s.bytes
	Label("pair")
	at, left := GP64(), GP64()
	MOVLQSX(Mem{Base: heads}, at)
	MOVLQSX(Mem{Base: heads, Disp: 4}, left)
	ADDQ(Imm(8), heads)
	ADDQ(z, at)
	first, second := make([]VecVirtual, nv), make([]VecVirtual, nv)
	for j := range nv {
		first[j], second[j] = s.vec(), s.vec()
		VMOVUPS(Mem{Base: at, Disp: j * s.bytes}, first[j])
		VMOVUPS(Mem{Base: at, Disp: panelBytes + j*s.bytes}, second[j])
	}
	for i := 0; i < 2*panelBytes; i += 64 {
		PREFETCHT0(Mem{Base: at, Disp: 4*panelBytes + i})
	}
	Label("cell")
	row, x, y := GP64(), s.vec(), s.vec()
	MOVLQSX(Mem{Base: cells}, row)
	VBROADCASTSS(Mem{Base: cells, Disp: 4}, x)
	VBROADCASTSS(Mem{Base: cells, Disp: 8}, y)
	ADDQ(Imm(12), cells)
	ADDQ(sums, row)
	for j := range nv {
		m, sum := Mem{Base: row, Disp: j * s.bytes}, s.vec()
		VMOVUPS(m, sum)
		VFMADD231PS(first[j], x, sum)
		VFMADD231PS(second[j], y, sum)
		VMOVUPS(sum, m)
	}
	DECQ(left)
	JNZ(LabelRef("cell"))
	DECQ(n)
	JNZ(LabelRef("pair"))
	VZEROUPPER()
	RET()
}

// productNonzeros emits the products of one row, given by its nonzeros, with
// so many panels at a time.
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
	each := panelBytes / s.bytes
	sum := make([]VecVirtual, panels*each)
	for j := range sum {
		sum[j] = s.vec()
		s.zero(sum[j])
	}
	Label("feature")
	at, x := GP64(), s.vec()
	MOVLQSX(Mem{Base: f}, at)
	VBROADCASTSS(Mem{Base: f, Disp: 4}, x)
	ADDQ(z, at)
	ADDQ(Imm(8), f)
	for j := range sum {
		if j > 0 && j%each == 0 {
			ADDQ(step, at)
		}
		VFMADD231PS(Mem{Base: at, Disp: j % each * s.bytes}, x, sum[j])
	}
	DECQ(n)
	JNZ(LabelRef("feature"))
	for j := range sum {
		VMOVUPS(sum[j], Mem{Base: out, Disp: j * s.bytes})
	}
	VZEROUPPER()
	RET()
}
