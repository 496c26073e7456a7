package kernel

// sumRows32 adds the n elements from lo on of each of k rows, one row after another, n a multiple of 8 and k ≥ 1:
// how = extend: to acc; begin: to −0; join: to −0, and what comes of it to acc.
//
//go:noescape
func sumRows32(acc *float32, rows *[]float32, k, lo, n, how int)

// sumRowsBF16 is sumRows32 with each leaf and each partial sum rounded to bf16.
//
//go:noescape
func sumRowsBF16(acc *float32, rows *[]float32, k, lo, n, how int)
