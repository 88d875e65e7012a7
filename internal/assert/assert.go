// Package assert checks what a test got, at once or until it is so. A random test repeats more often in a soak, and tells
// which steps led to a failure, and how they are played again.
package assert

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Rounds returns how often a test repeats: few, or many where SOAK=long is set, as make soak does.
func Rounds[N ~int | ~int64 | ~uint64](few, many N) N {
	if os.Getenv("SOAK") == "long" {
		return many
	}
	return few
}

// Must ends a test with an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// NoError returns a value, and ends the test if there is an error beside it.
func NoError[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Must(t, err)
		return value
	}
}

// ErrorIf fails a test where something is not as wanted. The format and its arguments say what was got.
func ErrorIf(t testing.TB, wrong bool, format string, args ...any) {
	t.Helper()
	if wrong {
		t.Errorf(format, args...)
	}
}

// Equal fails a test where something is not exactly as wanted. Of values with parts it tells those that differ.
func Equal[T any](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	name := fmt.Sprintf(what, args...)
	switch differ := Differ(got, want); {
	case differ == "" || strings.HasPrefix(differ, " is "): // what differs is the whole
		t.Errorf("%s is %v, want %v", name, got, want)
	default:
		t.Errorf("%s: %s", name, differ)
	}
}

// FatalIf is [ErrorIf], and ends the test.
func FatalIf(t testing.TB, wrong bool, format string, args ...any) {
	t.Helper()
	if wrong {
		t.Fatalf(format, args...)
	}
}

// Retry tries until it is not needed again, for at most three minutes. An error shows what was seen last.
func Retry(t testing.TB, what string, try func() (again bool, seen any)) {
	t.Helper()
	WaitFor(t, what, func() error {
		again, seen := try()
		if again {
			return fmt.Errorf("got %v", seen)
		}
		return nil
	})
}

// WaitFor tries a condition until it holds, for at most three minutes: a busy machine may take one to start a
// browser. The longer it waits, the longer it pauses between tries, which take the processor from what it waits for.
func WaitFor(t testing.TB, what string, condition func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	for begin := time.Now(); ; {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-time.After(min(max(5*time.Millisecond, time.Since(begin)/16), 50*time.Millisecond)):
		case <-ctx.Done():
			t.Fatalf("waiting until %s: %v", what, err)
		}
	}
}
