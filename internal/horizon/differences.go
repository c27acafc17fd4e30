package horizon

import (
	"fmt"
	"reflect"
)

// Differences are the settings that both know and that are not the same in both:
// a process's flags against the entities that they tell it of, or defaults in two
// places.
func Differences(a, b Settings) []string {
	var found []string
	compare(reflect.ValueOf(a), reflect.ValueOf(b), &found)
	return found
}

// compare walks down to the settings, which alone have a Name and a Value.
func compare(a, b reflect.Value, found *[]string) {
	switch {
	case a.Kind() == reflect.Slice:
		for i := range min(a.Len(), b.Len()) {
			compare(a.Index(i), b.Index(i), found)
		}
	case a.Kind() != reflect.Struct:
	case !a.FieldByName("Value").IsValid():
		for i := range a.NumField() {
			compare(a.Field(i), b.Field(i), found)
		}
	default:
		one, other := a.FieldByName("Name").String(), b.FieldByName("Name").String()
		if x, y := a.FieldByName("Value"), b.FieldByName("Value"); one != "" && other != "" && !x.Equal(y) {
			*found = append(*found, fmt.Sprintf("%s is %v, and %s is %v", one, x, other, y))
		}
	}
}
