package nn

import "firstbit/libm"

// ReLU2 is y = max(x, 0)².
func ReLU2[T libm.Float](y, x []T) {
	for i, v := range x[:len(y)] {
		r := max(v, 0)
		y[i] = r * r
	}
}

// ReLU2Backward is dx = 2·max(x, 0)·dy.
func ReLU2Backward[T libm.Float](dx, dy, x []T) {
	for i, v := range x[:len(dx)] {
		dx[i] = T(2*max(v, 0)) * dy[i]
	}
}

// Add is y = a + b.
func Add[T libm.Float](y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	for i := range y {
		y[i] = a[i] + b[i]
	}
}

// mul is y = a·b, element by element.
func mul[T libm.Float](y, a, b []T) {
	a, b = a[:len(y)], b[:len(y)]
	for i := range y {
		y[i] = a[i] * b[i]
	}
}
