package assert

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// mostDiffering is how many parts [Differ] names.
const mostDiffering = 8

// Differ names the parts in which two values of a type differ, such as "Remaining is 3, want 4": fields, elements and
// entries, at any depth. It is empty where they are equal.
func Differ[T any](got, want T) string {
	d := differing{}
	d.compare("", reflect.ValueOf(&got).Elem(), reflect.ValueOf(&want).Elem(), 0)
	if more := len(d) - mostDiffering; more > 0 {
		d = append(d[:mostDiffering], fmt.Sprintf("%d more differ", more))
	}
	return strings.Join(d, "; ")
}

// deepest bounds how deep values are compared part by part. What is below counts as one part.
const deepest = 8

// differing are the parts that differ.
type differing []string

func (d *differing) compare(path string, got, want reflect.Value, depth int) {
	if got.IsValid() && want.IsValid() && got.Type() == want.Type() && depth < deepest {
		if _, named := stringer(got); !named && d.comparedParts(path, got, want, depth+1) {
			return
		}
	}
	if shown, wanted := show(got), show(want); !sameValue(got, want) {
		*d = append(*d, strings.TrimPrefix(path, ".")+" is "+shown+", want "+wanted)
	}
}

// comparedParts compares the parts of values, and is false for values that have none.
func (d *differing) comparedParts(path string, got, want reflect.Value, depth int) bool {
	switch got.Kind() {
	case reflect.Struct:
		for i := range got.NumField() {
			d.compare(path+"."+got.Type().Field(i).Name, got.Field(i), want.Field(i), depth)
		}
	case reflect.Pointer, reflect.Interface:
		if got.IsNil() || want.IsNil() || got.Kind() == reflect.Pointer && got.Pointer() == want.Pointer() {
			return got.IsNil() == want.IsNil() && !got.IsNil()
		}
		d.compare(path, got.Elem(), want.Elem(), depth)
	case reflect.Slice, reflect.Array:
		if got.Len() != want.Len() || got.Kind() == reflect.Slice && got.IsNil() != want.IsNil() {
			return false
		}
		for i := range got.Len() {
			d.compare(path+"["+strconv.Itoa(i)+"]", got.Index(i), want.Index(i), depth)
		}
	case reflect.Map:
		if got.IsNil() != want.IsNil() {
			return false
		}
		d.compareEntries(path, got, want, depth)
	default:
		return false
	}
	return true
}

func (d *differing) compareEntries(path string, got, want reflect.Value, depth int) {
	for _, key := range got.MapKeys() {
		d.compare(path+"["+show(key)+"]", got.MapIndex(key), want.MapIndex(key), depth)
	}
	for _, key := range want.MapKeys() {
		if !got.MapIndex(key).IsValid() {
			d.compare(path+"["+show(key)+"]", reflect.Value{}, want.MapIndex(key), depth)
		}
	}
}

// stringer returns what a value says of itself, if it does.
func stringer(v reflect.Value) (fmt.Stringer, bool) {
	if !v.IsValid() || !v.CanInterface() {
		return nil, false
	}
	s, ok := v.Interface().(fmt.Stringer)
	return s, ok
}

// show is a value as text. Fields that are not exported have no methods there.
func show(v reflect.Value) string {
	switch {
	case !v.IsValid():
		return "missing"
	case v.Kind() == reflect.String:
		return strconv.Quote(v.String())
	case v.CanInterface():
		return fmt.Sprintf("%+v", v.Interface())
	}
	return fmt.Sprintf("%+v", v)
}

// sameValue compares values that have no parts, or are too deep for those.
func sameValue(a, b reflect.Value) bool {
	switch {
	case !a.IsValid() || !b.IsValid():
		return a.IsValid() == b.IsValid()
	case a.CanInterface() && b.CanInterface():
		return reflect.DeepEqual(a.Interface(), b.Interface())
	case a.Type() != b.Type():
		return false
	case a.Comparable() && b.Comparable():
		return a.Equal(b)
	case a.Kind() == reflect.Slice || a.Kind() == reflect.Map:
		return a.Len() == b.Len() && a.IsNil() == b.IsNil() && show(a) == show(b)
	}
	return show(a) == show(b)
}
