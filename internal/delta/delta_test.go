package delta

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/streamsvm/streamsvm/internal/testkit/alloctest"
)

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// check makes the way there and returns the length of the patch.
func check(t *testing.T, base, next []byte) int {
	t.Helper()
	b, n := slices.Clone(base), slices.Clone(next)
	patch := Diff(base, next)
	if !bytes.Equal(patch, Diff(base, next)) {
		t.Fatal("two patches for the same bytes differ")
	}
	got, err := Patch(base, patch)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, next) {
		t.Fatalf("the result of %d bytes is not what was asked for, %d bytes", len(got), len(next))
	}
	if !bytes.Equal(b, base) || !bytes.Equal(n, next) {
		t.Fatal("an argument was changed")
	}
	if size, err := Size(patch); err != nil || size != len(next) {
		t.Fatalf("size %d, %v, want %d", size, err, len(next))
	}
	return len(patch)
}

// edit changes b in one of the ways in which encodings change.
func edit(r *rand.Rand, b []byte) []byte {
	b = slices.Clone(b)
	at := r.IntN(len(b) + 1)
	switch r.IntN(6) {
	case 0: // a number takes a byte more
		return slices.Insert(b, at, byte(r.Uint32()))
	case 1: // an array grows
		return slices.Insert(b, at, random(r, r.IntN(3000))...)
	case 2: // something is dropped
		return slices.Delete(b, at, min(len(b), at+r.IntN(3000)))
	case 3: // something moves
		end := min(len(b), at+r.IntN(3000))
		piece := slices.Clone(b[at:end])
		b = slices.Delete(b, at, end)
		return slices.Insert(b, r.IntN(len(b)+1), piece...)
	case 4: // numbers change here and there
		for range r.IntN(50) {
			if len(b) > 0 {
				b[r.IntN(len(b))]++
			}
		}
	case 5: // a stretch of zeros
		clear(b[at:min(len(b), at+r.IntN(500))])
	}
	return b
}

func TestPatchEqualsFull(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		base := random(r, r.IntN(20_000)*r.IntN(2))
		if r.IntN(3) == 0 { // many equal windows
			base = bytes.Repeat(random(r, 1+r.IntN(40)), r.IntN(500))
		}
		next := slices.Clone(base)
		for range r.IntN(6) {
			next = edit(r, next)
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { check(t, base, next) })
	}
}

// TestSize holds patches to what they should cost at most.
func TestSize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 1 << 20
	base := random(r, n)
	blocks := func(count, size int) []byte {
		next := slices.Clone(base)
		for range count {
			at := r.IntN(n/size) * size
			copy(next[at:], random(r, size))
		}
		return next
	}
	for _, c := range []struct {
		name string
		next []byte
		most int
	}{
		{"equal", base, 48},
		{"empty", nil, 48},
		{"truncated", base[:n/3], 48},
		{"one block of a thousand", blocks(1, n/1000), n/1000 + 64},
		{"a hundred numbers", blocks(100, 8), 100*8 + 100*8 + 48},
		{"appended", slices.Concat(base, random(r, 1000)), 1000 + 64},
		{"a byte more in front", slices.Concat([]byte{7}, base), 128},
		{"a byte less in front", base[1:], 128},
		{"inserted", slices.Concat(base[:1000], random(r, 500), base[1000:]), 500 + 128},
		{"three parts, each longer", slices.Concat(base[:n/3], random(r, 88), base[n/3:n/2], random(r, 8), base[n/2:], random(r, 8)), 104 + 256},
		{"inserted, much", slices.Concat(base[:n/2+5], random(r, 100_000), base[n/2+5:]), 100_000 + 128},
		{"other", random(r, n), n + 64},
	} {
		if size := check(t, base, c.next); size > c.most {
			t.Errorf("%s: patch of %d bytes, want at most %d", c.name, size, c.most)
		}
	}
}

// TestAdverse: inputs made to mislead a matcher must not make patches larger
// than what they are patches for.
func TestAdverse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	zeros := make([]byte, 300_000)
	near := bytes.Repeat(append(make([]byte, 30), 1, 2), 10_000)
	for name, pair := range map[string][2][]byte{
		"zeros and more":   {zeros[:1000], zeros},
		"zeros and fewer":  {zeros, zeros[:1000]},
		"almost periodic":  {near, near[7 : len(near)-5]},
		"zeros and noise":  {zeros, random(r, len(zeros))},
		"noise and zeros":  {random(r, len(zeros)), zeros},
		"windows of zeros": {near, zeros},
	} {
		if size := check(t, pair[0], pair[1]); size > len(pair[1])+64 {
			t.Errorf("%s: patch of %d bytes for %d", name, size, len(pair[1]))
		}
	}
}

func TestWrongBase(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	base := random(r, 5000)
	patch := Diff(base, edit(r, base))
	other := slices.Clone(base)
	other[4000] ^= 1
	for name, b := range map[string][]byte{"changed": other, "longer": append(slices.Clone(base), 0), "shorter": base[1:], "none": nil} {
		if _, err := Patch(b, patch); !errors.Is(err, ErrBase) {
			t.Errorf("%s base: %v", name, err)
		}
	}
}

// TestDamagedPatch flips every bit and cuts at every length: no result but the
// right one may come out.
func TestDamagedPatch(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	base := random(r, 600)
	next := slices.Concat(base[:100], random(r, 20), base[90:300], base[10:80], random(r, 3), base[400:])
	patch := Diff(base, next)
	for i := range 8 * len(patch) {
		bad := slices.Clone(patch)
		bad[i/8] ^= 1 << (i % 8)
		if got, err := Patch(base, bad); err == nil && !bytes.Equal(got, next) {
			t.Fatalf("bit %d flipped: another result", i)
		}
	}
	for i := range patch {
		if _, err := Patch(base, patch[:i]); err == nil {
			t.Fatalf("cut to %d of %d bytes and accepted", i, len(patch))
		}
	}
	if _, err := Patch(base, append(slices.Clone(patch), 0)); err == nil {
		t.Error("a byte more was accepted")
	}
}

// TestHostileLengths: what a patch claims is not allocated before it is known
// that the patch holds it.
func TestHostileLengths(t *testing.T) {
	base := []byte("base")
	h, _, err := read(Diff(base, base))
	if err != nil {
		t.Fatal(err)
	}
	claim := func(result, n, m uint64) []byte {
		p := binary.AppendUvarint([]byte(magic), 4)
		p = binary.AppendUvarint(p, result)
		p = binary.LittleEndian.AppendUint64(p, h.baseSum)
		p = binary.LittleEndian.AppendUint64(p, h.resultSum)
		p = binary.AppendUvarint(p, n)
		p = append(p, 0)
		return binary.AppendUvarint(p, m)
	}
	for _, p := range [][]byte{claim(1<<45, 4, 0), claim(1<<45, 1<<44, 0), claim(1<<45, 4, 1<<44), claim(1<<63, 4, 0), claim(4, 5, 0)} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Patch(base, p)
		runtime.ReadMemStats(&after)
		if err == nil || after.TotalAlloc-before.TotalAlloc > 1<<16 {
			t.Errorf("%x: error %v after %d bytes", p, err, after.TotalAlloc-before.TotalAlloc)
		}
	}
}

func FuzzDiff(f *testing.F) {
	f.Add([]byte(nil), []byte("x"))
	f.Add(bytes.Repeat([]byte("abcdefghijklmnop"), 10), bytes.Repeat([]byte("abcdefghijklmnopq"), 10))
	f.Fuzz(func(t *testing.T, base, next []byte) {
		patch := Diff(base, next)
		if got, err := Patch(base, patch); err != nil || !bytes.Equal(got, next) {
			t.Fatalf("%v", err)
		}
		if len(patch) > len(next)+64 {
			t.Fatalf("a patch of %d bytes for %d", len(patch), len(next))
		}
	})
}

func FuzzPatch(f *testing.F) {
	f.Add([]byte("some base"), Diff([]byte("some base"), []byte("another base")))
	f.Fuzz(func(t *testing.T, base, patch []byte) {
		size, sizeErr := Size(patch)
		if size > 1<<24 {
			return // the caller's limit
		}
		// What a patch makes may be far larger than the patch; its size was known
		// beforehand.
		var got []byte
		var err error
		alloctest.Check(t, len(base)+len(patch)+size, func() { got, err = Patch(base, patch) })
		if err == nil && (sizeErr != nil || len(got) != size) {
			t.Fatalf("%d bytes, announced as %d, %v", len(got), size, sizeErr)
		}
	})
}
