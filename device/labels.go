package device

import "strconv"

// Labels are a prefix with a number, such as chunk.3, made beforehand for small numbers: a step asks for them often.
type Labels struct {
	prefix string
	made   [64]string
}

// NewLabels makes the labels of a prefix.
func NewLabels(prefix string) *Labels {
	l := &Labels{prefix: prefix}
	for i := range l.made {
		l.made[i] = prefix + strconv.Itoa(i)
	}
	return l
}

// At is the prefix with i.
func (l *Labels) At(i int) string {
	if i < len(l.made) {
		return l.made[i]
	}
	return l.prefix + strconv.Itoa(i)
}
