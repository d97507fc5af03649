package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// gram emits the integer products of 16 columns with 16 others, four at a time. The sums
// are exact modulo 2³², so the order in which they are added is free. It is for AVX2 only,
// since it was not faster with AVX-512.
func gram(s isa) {
	s.text("gram", "func(a *int16, b *int16, n int, out *int32)",
		"sets out[16i+j] to the sum over n > 0 pairs of rows p of\na[32p+2i]·b[32p+2j] + a[32p+2i+1]·b[32p+2j+1], for i and j < 16.")
	a, b, n, out := Load(Param("a"), GP64()), Load(Param("b"), GP64()), Load(Param("n"), GP64()), Load(Param("out"), GP64())
	const rows, vectors = 4, 2
	rounds, pa, pb, left := GP64(), GP64(), GP64(), GP64()
	MOVQ(U64(16/rows), rounds)
	Label("round")
	var acc [rows][vectors]VecVirtual
	for i := range acc {
		for j := range vectors {
			acc[i][j] = s.vec()
			s.zero(acc[i][j])
		}
	}
	MOVQ(a, pa)
	MOVQ(b, pb)
	MOVQ(n, left)
	Label("pair")
	var v [vectors]VecVirtual
	for j := range v {
		v[j] = s.vec()
		VMOVDQU(Mem{Base: pb, Disp: s.bytes * j}, v[j])
	}
	for i := range acc {
		x := s.vec()
		VPBROADCASTD(Mem{Base: pa, Disp: 4 * i}, x)
		for j := range v {
			t := s.vec()
			VPMADDWD(v[j], x, t)
			VPADDD(t, acc[i][j], acc[i][j])
		}
	}
	ADDQ(Imm(64), pa)
	ADDQ(Imm(64), pb)
	DECQ(left)
	JNZ(LabelRef("pair"))
	for i := range acc {
		for j := range v {
			VMOVDQU(acc[i][j], Mem{Base: out, Disp: 64*i + s.bytes*j})
		}
	}
	ADDQ(Imm(4*rows), a)
	ADDQ(U32(64*rows), out)
	DECQ(rounds)
	JNZ(LabelRef("round"))
	VZEROUPPER()
	RET()
}
