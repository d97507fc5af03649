//go:build !race

package alloctest

// Exact reports whether Bytes counts only what f allocates. Under the race detector
// it also counts what that allocates.
const Exact = true
