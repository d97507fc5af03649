package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// gram emits the integer products of 16 columns with 16 others. The sums are exact
// modulo 2³², so the order in which they are added is free.
func gram(s isa) {
	s.text("gram", "func(a *int16, b *int16, n int, out *int32)",
		"sets out[16i+j] to the sum over n > 0 pairs of rows p of\na[32p+2i]·b[32p+2j] + a[32p+2i+1]·b[32p+2j+1], for i and j < 16.")
	a, b, n, out := Load(Param("a"), GP64()), Load(Param("b"), GP64()), Load(Param("n"), GP64()), Load(Param("out"), GP64())
	rows, vectors := 16, 1
	if !s.wide() {
		rows, vectors = 4, 2 // in four rounds
	}
	rounds := GP64()
	MOVQ(U64(uint64(16/rows)), rounds)
	Label("round")
	acc := make([]VecVirtual, rows*vectors)
	for i := range acc {
		acc[i] = s.vec()
		s.zero(acc[i])
	}
	pa, pb, left := GP64(), GP64(), GP64()
	MOVQ(a, pa)
	MOVQ(b, pb)
	MOVQ(n, left)
	Label("pair")
	v := make([]VecVirtual, vectors)
	move := func(from, to Op) { VMOVDQU(from, to) }
	if s.wide() {
		move = func(from, to Op) { VMOVDQU32(from, to) }
	}
	for j := range v {
		v[j] = s.vec()
		move(Mem{Base: pb, Disp: s.bytes * j}, v[j])
	}
	for i := range rows {
		x := s.vec()
		VPBROADCASTD(Mem{Base: pa, Disp: 4 * i}, x)
		for j := range v {
			t := s.vec()
			VPMADDWD(v[j], x, t)
			VPADDD(t, acc[i*vectors+j], acc[i*vectors+j])
		}
	}
	ADDQ(Imm(64), pa)
	ADDQ(Imm(64), pb)
	DECQ(left)
	JNZ(LabelRef("pair"))
	for i := range acc {
		move(acc[i], Mem{Base: out, Disp: s.bytes * i})
	}
	ADDQ(Imm(uint64(4*rows)), a)
	ADDQ(U32(uint32(64*rows)), out)
	DECQ(rounds)
	JNZ(LabelRef("round"))
	VZEROUPPER()
	RET()
}
