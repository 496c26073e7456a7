package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"firstbit/spell"
)

// JSON is json.Unmarshal for what people write by hand. Encoding/json takes the last of two keys of one name, and takes "Width" for
// "width": either would silently be another configuration than its reader sees. Keys that no field has are refused too, unless others is true.
func JSON(text []byte, v any, others bool) error {
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil { // the syntax first, to the last byte
		return plain(err)
	}
	w := keyChecker{json.NewDecoder(bytes.NewReader(text)), others}
	if err := w.value(reflect.TypeOf(v), ""); err != nil {
		return err
	}
	return plain(json.Unmarshal(text, v))
}

// plain is an error of encoding/json without the name of the package, and of Go's types.
func plain(err error) error {
	var t *json.UnmarshalTypeError
	if errors.As(err, &t) {
		where := ""
		if t.Field != "" {
			where = t.Field + ": "
		}
		return fmt.Errorf("%s%s: must be %s", where, t.Value, kind(t.Type))
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

func kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "text"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a whole number that is not too large"
}

// A keyChecker checks the keys of a text whose syntax is right, so that no token can fail.
type keyChecker struct {
	*json.Decoder
	others bool
}

// value checks the next value, to be decoded as a t; nil: as anything.
func (w keyChecker) value(t reflect.Type, path string) error {
	token, err := w.Token()
	if err != nil {
		return plain(err)
	}
	if t != nil && t.Kind() == reflect.Pointer {
		if t = t.Elem(); token == nil {
			return nil
		}
	}
	switch token {
	case json.Delim('{'):
		err = w.object(t, path)
	case json.Delim('['):
		for err == nil && w.More() {
			err = w.value(element(t), path)
		}
	case nil:
		if t != nil && !w.others && t.Kind() != reflect.Slice && t.Kind() != reflect.Map {
			return fmt.Errorf("%s: null: must be %s", path, kind(t)) // encoding/json would leave the field as it is
		}
		return nil
	default:
		return nil
	}
	if err == nil {
		_, err = w.Token()
	}
	return err
}

func (w keyChecker) object(t reflect.Type, path string) error {
	fields := fieldsOf(t)
	seen := map[string]bool{}
	for w.More() {
		token, err := w.Token()
		if err != nil {
			return plain(err)
		}
		key, in := token.(string), ""
		if path != "" {
			in = " in " + path
		}
		next := element(t)
		if fields != nil {
			i := slices.IndexFunc(fields, func(f field) bool { return f.name == key })
			if i >= 0 {
				next = fields[i].t
			} else if near := spelled(fields, key); near != "" {
				return fmt.Errorf("no field %q%s: must be %q", key, in, near)
			} else if !w.others {
				return fmt.Errorf("no field %q%s: %s", key, in, spell.OneOf(key, names(fields)))
			}
		}
		if seen[key] {
			return fmt.Errorf("field %q%s: is there twice", key, in)
		}
		seen[key] = true
		if err := w.value(next, strings.TrimPrefix(path+"."+key, ".")); err != nil {
			return err
		}
	}
	return nil
}

// A field is what encoding/json sets for a key.
type field struct {
	name string
	t    reflect.Type
}

// fieldsOf lists a struct's fields; nil: it is none, or decodes itself.
func fieldsOf(t reflect.Type) (f []field) {
	if t == nil || t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	for _, s := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(s.Tag.Get("json"), ",")
		if tag == "" {
			tag = s.Name
		}
		if s.IsExported() && !s.Anonymous && tag != "-" {
			f = append(f, field{tag, s.Type})
		}
	}
	return f
}

// element is the type of what a list or a map holds; nil: anything.
func element(t reflect.Type) reflect.Type {
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map) {
		return t.Elem()
	}
	return nil
}

// spelled is the field that encoding/json would take a key for; empty: none.
func spelled(fields []field, key string) string {
	for _, f := range fields {
		if strings.EqualFold(f.name, key) {
			return f.name
		}
	}
	return ""
}

func names(fields []field) []string {
	all := make([]string, len(fields))
	for i, f := range fields {
		all[i] = f.name
	}
	slices.Sort(all)
	return all
}
