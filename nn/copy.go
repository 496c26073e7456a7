package nn

import "firstbit/libm"

// CopyColumns copies n columns of every row: dst[r, j] = src[r, j].
//
// Shapes:  src (rows,n) with rows of ldSrc elements → dst (rows,n) with rows of ldDst.
func CopyColumns[T libm.Float](dst []T, ldDst int, src []T, ldSrc, rows, n int) {
	for r := range rows {
		copy(dst[r*ldDst:][:n], src[r*ldSrc:][:n])
	}
}
