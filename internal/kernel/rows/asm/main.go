// Command asm generates the assembly of package rows. It is a separate module, which
// keeps the generator's dependencies out of the package. Run it with go generate in
// the parent directory.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("!purego")
	lookup("lookupXorAVX512", "over features that differ", func(a Mem, w, v VecVirtual) { VPXORQ_BCST(a, w, v) })
	lookup("lookupAndAVX512", "over features in common", func(a Mem, w, v VecVirtual) { VPANDQ_BCST(a, w, v) })
	Generate()
}

// lookup generates the loop of bitset.groupsGo over whole groups of eight points; the
// Go code documents it.
func lookup(name, what string, combine func(a Mem, w, v VecVirtual)) {
	TEXT(name, NOSPLIT, "func(dst, table *float32, a, words *uint64, width, blocks int)")
	Pragma("noescape")
	Doc(name + " looks up sums " + what + ", for blocks > 0 of eight points of width > 0 words each.")
	dst := Load(Param("dst"), GP64())
	table := Load(Param("table"), GP64())
	a := Load(Param("a"), GP64())
	words := Load(Param("words"), GP64())
	width := Load(Param("width"), GP64())
	blocks := Load(Param("blocks"), GP64())

	Label("block")
	sum := ZMM()
	VPXORQ(sum, sum, sum)
	k := GP64()
	XORQ(k, k)

	Label("word")
	w, v := ZMM(), ZMM()
	VMOVDQU64(Mem{Base: words}, w)
	combine(Mem{Base: a, Index: k, Scale: 8}, w, v)
	VPOPCNTQ(v, v)
	VPADDQ(v, sum, sum)
	ADDQ(Imm(64), words)
	INCQ(k)
	CMPQ(k, width)
	JNE(LabelRef("word"))

	all, values := K(), YMM()
	KXNORB(all, all, all)
	VXORPS(values, values, values) // otherwise the gather depends on the old value of its target
	VGATHERQPS(Mem{Base: table, Index: sum, Scale: 4}, all, values)
	VMOVUPS(values, Mem{Base: dst})
	ADDQ(Imm(32), dst)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}
