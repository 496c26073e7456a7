//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// A JSON text keeps the order of its keys when it is mutated: it is taken apart into values and put together again.

// A value is an object, a list, or anything else as it stands.
type value struct {
	keys  []string
	items []value
	list  bool
	plain string // of neither
}

func parse(text []byte) (value, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return parseNext(d)
}

func parseNext(d *json.Decoder) (v value, err error) {
	token, err := d.Token()
	if err != nil {
		return v, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		b, err := json.Marshal(token)
		return value{plain: string(b)}, err
	}
	v.list = delim == '['
	for d.More() {
		if !v.list {
			key, err := d.Token()
			if err != nil {
				return v, err
			}
			v.keys = append(v.keys, fmt.Sprint(key))
		}
		item, err := parseNext(d)
		if err != nil {
			return v, err
		}
		v.items = append(v.items, item)
	}
	_, err = d.Token()
	return v, err
}

func (v value) String() string {
	if v.plain != "" {
		return v.plain
	}
	parts := make([]string, len(v.items))
	for i, item := range v.items {
		if parts[i] = item.String(); !v.list {
			parts[i] = strconv.Quote(v.keys[i]) + ":" + parts[i]
		}
	}
	if v.list {
		return "[" + strings.Join(parts, ",") + "]"
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// object has a key.
func (v *value) get(key string) *value {
	for i, k := range v.keys {
		if k == key {
			return &v.items[i]
		}
	}
	return nil
}

// text is what a string says.
func (v *value) text() string {
	s, err := strconv.Unquote(v.plain)
	if err != nil {
		return v.plain
	}
	return s
}

// strange are what values become, besides extremes.
var strange = append([]string{`""`, `"\u001b[2J"`, `"a\nb"`, `"../../x"`, `"rank00000.safetensors"`, `{"a":1}`, "[1,2,3]", "[-1]", "[4294967296,4294967296]", "[[]]"}, extremes...)

// mutate changes one thing in a value and says where and how.
func mutate(r *rand.Rand, v *value) string {
	path := ""
	for len(v.items) > 0 && (path == "" || r.IntN(6) > 0) {
		i := r.IntN(len(v.items))
		name := strconv.Itoa(i)
		if !v.list {
			name = v.keys[i]
		}
		if r.IntN(8) == 0 {
			return path + "." + name + " " + v.restructure(r, i)
		}
		path += "." + name
		v = &v.items[i]
	}
	old := v.String()
	for v.String() == old {
		*v = value{plain: pick(r, strange)}
	}
	return path + " = " + v.plain
}

// restructure changes what a value holds, and says how.
func (v *value) restructure(r *rand.Rand, i int) string {
	again := v.items[i]
	switch kind := r.IntN(3); {
	case kind == 0:
		v.items = append(v.items[:i:i], v.items[i+1:]...)
		if !v.list {
			v.keys = append(v.keys[:i:i], v.keys[i+1:]...)
		}
		return "removed"
	case kind == 1 || v.list:
		v.items = append(v.items, again)
		if !v.list {
			v.keys = append(v.keys, v.keys[i])
		}
		return "twice"
	}
	v.keys = append([]string{}, v.keys...)
	v.keys[i] = strings.ToUpper(v.keys[i])
	return "in capitals"
}
