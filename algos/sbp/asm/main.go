// Command asm generates the assembly of package sbp. It is a separate module, which
// keeps the generator's dependencies out of the learner. Run it with go generate in
// the parent directory.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("!purego")
	scan()
	Generate()
}

// scan generates the loop of scanGo over eight examples at a time, one in each lane;
// the Go code documents it.
func scan() {
	TEXT("scanAVX512", NOSPLIT, "func(u, y *float64, n int, shift, lo, hi float64, depth *[8]float64, band *int32) (below, negative, found int)")
	Pragma("noescape")
	Doc("scanAVX512 is scanGo for n > 0 examples, a multiple of 8.")
	u := Load(Param("u"), GP64())
	y := Load(Param("y"), GP64())
	n := Load(Param("n"), GP64())
	depthAt := Load(Param("depth"), GP64())
	band := Load(Param("band"), GP64())
	wide := func(name string) VecVirtual {
		x := XMM()
		Load(Param(name), x)
		z := ZMM()
		VBROADCASTSD(x, z)
		return z
	}
	shift, lo, hi := wide("shift"), wide("lo"), wide("hi")
	zero, depth := ZMM(), ZMM()
	VPXORQ(zero, zero, zero)
	VMOVUPD(Mem{Base: depthAt}, depth)
	sign := ZMM()
	bit := GP64()
	MOVQ(U64(1<<63), bit)
	VPBROADCASTQ(bit, sign)

	// The indices of the present eight examples.
	index, eight := YMM(), YMM()
	VMOVDQU(indices(), index)
	k := GP32()
	MOVL(U32(8), k)
	VPBROADCASTD(k, eight)

	below, negative, found := GP64(), GP64(), GP64()
	XORQ(below, below)
	XORQ(negative, negative)
	XORQ(found, found)
	count := GP64()

	Label("loop")
	v, s := ZMM(), ZMM()
	VADDPD(Mem{Base: u}, shift, v)
	VMOVUPD(Mem{Base: y}, s)
	minus, under, in := K(), K(), K()
	VPMOVQ2M(s, minus)
	VPANDQ(sign, s, s)
	VPXORQ(s, v, v)
	VADDPD(zero, v, v) // never −0

	d := ZMM()
	VSUBPD(lo, v, d)
	VPMOVQ2M(d, under)
	VSUBPD(d, depth, under, depth)
	KMOVB(under, count.As32())
	POPCNTL(count.As32(), count.As32())
	ADDQ(count, below)
	KANDB(under, minus, minus)
	KMOVB(minus, count.As32())
	POPCNTL(count.As32(), count.As32())
	ADDQ(count, negative)

	e := ZMM()
	VSUBPD(hi, v, e)
	VPMOVQ2M(e, in)
	KANDNB(in, under, in)
	KMOVB(in, count.As32())
	TESTL(count.As32(), count.As32())
	JZ(LabelRef("next"))
	VPCOMPRESSD(index, in, Mem{Base: band, Index: found, Scale: 4})
	POPCNTL(count.As32(), count.As32())
	ADDQ(count, found)

	Label("next")
	VPADDD(eight, index, index)
	ADDQ(Imm(64), u)
	ADDQ(Imm(64), y)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("loop"))

	VMOVUPD(depth, Mem{Base: depthAt})
	VZEROUPPER()
	Store(below, ReturnIndex(0))
	Store(negative, ReturnIndex(1))
	Store(found, ReturnIndex(2))
	RET()
}

// indices are 0 … 7.
func indices() Mem {
	m := GLOBL("indices", RODATA|NOPTR)
	for i := range 8 {
		DATA(4*i, U32(i))
	}
	return m
}
