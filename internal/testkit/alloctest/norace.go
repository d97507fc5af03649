//go:build !race

package alloctest

// Exact tells whether Bytes counts only what f allocates, and not also what the
// race detector does.
const Exact = true
