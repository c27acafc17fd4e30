package control

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// decode reads one JSON object into a struct and refuses what it does not know:
// unknown, misspelt and repeated members, wrong types, trailing bytes. The error
// names every mistake, so that nobody has to find them one request at a time.
func decode(data []byte, into any) error {
	if len(data) == 0 {
		return errors.New("the body is empty; send a JSON object")
	}
	var object jsontext.Value
	if err := json.Unmarshal(data, &object); err != nil {
		return fmt.Errorf("the body is not one JSON document: %w", err)
	}
	return errors.Join(decodeObject("", object, reflect.ValueOf(into).Elem())...)
}

func decodeObject(at string, object jsontext.Value, into reflect.Value) (mistakes []error) {
	var members map[string]jsontext.Value
	if object.Kind() != '{' || json.Unmarshal(object, &members) != nil {
		return []error{fmt.Errorf("%s: must be a JSON object", cmp.Or(at, "the body"))}
	}
	fields := make(map[string]reflect.Value)
	for i := range into.NumField() {
		name, _, _ := strings.Cut(into.Type().Field(i).Tag.Get("json"), ",")
		fields[name] = into.Field(i)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		field, known := fields[name]
		path := strings.TrimPrefix(at+"."+name, ".")
		switch {
		case !known:
			mistakes = append(mistakes, fmt.Errorf("%s: there is no such member; there are %s",
				path, strings.Join(slices.Sorted(maps.Keys(fields)), ", ")))
		case field.Kind() == reflect.Struct:
			mistakes = append(mistakes, decodeObject(path, members[name], field)...)
		default:
			if err := json.Unmarshal(members[name], field.Addr().Interface()); err != nil {
				mistakes = append(mistakes, fmt.Errorf("%s: want %s, not %s", path, wanted(field), members[name]))
			}
		}
	}
	return mistakes
}

// wanted says in the sender's words what a field takes.
func wanted(field reflect.Value) string {
	if _, ok := field.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return `a duration like "1.5s"`
	}
	switch field.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool, reflect.Pointer:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Uint64:
		return "a whole number from 0"
	case reflect.Float64:
		return "a number"
	default:
		return "an object"
	}
}
