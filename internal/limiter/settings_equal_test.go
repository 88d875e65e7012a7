package limiter_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/limiter"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/storetest"
)

// TestSettings_Equal_compares_every_field changes each field in turn, of settings with all fields and of settings with none.
func TestSettings_Equal_compares_every_field(t *testing.T) {
	whole := limiter.Settings{
		Name: "p", Algorithm: limiter.GCRA, Limit: 5, Window: time.Minute, Calendar: "day", Location: time.UTC, MaxConcurrent: 5,
		NodeTimeout: time.Minute, Waits: true, Burst: 5, MaxDelay: new(time.Second), Ban: []time.Duration{time.Minute}, BanAfter: 5,
		Lease: time.Second, Refunds: true, Dynamic: true,
	}
	for field := range reflect.TypeFor[limiter.Settings]().Fields() {
		assert.ErrorIf(t, reflect.ValueOf(whole).FieldByIndex(field.Index).IsZero(), "%s is not among the fields that the test sets", field.Name)
		for _, s := range []limiter.Settings{whole, {Calendar: "day"}} {
			changed := s
			change(t, reflect.ValueOf(&changed).Elem().FieldByIndex(field.Index))
			assert.ErrorIf(t, s.Equal(changed) || changed.Equal(s), "%s makes no difference between\n%+v and\n%+v", field.Name, s, changed)
		}
	}
}

// change gives a field another value that is no default.
func change(t *testing.T, field reflect.Value) {
	t.Helper()
	switch old := field.Interface().(type) {
	case string:
		field.SetString(old + "x")
	case int64:
		field.SetInt(old + 7)
	case int:
		field.SetInt(int64(old) + 7)
	case time.Duration:
		field.SetInt(int64(old + 7*time.Second))
	case bool:
		field.SetBool(!old)
	case *time.Duration:
		field.Set(reflect.ValueOf(new(7 * time.Second)))
	case []time.Duration:
		field.Set(reflect.ValueOf(append(slices.Clone(old), 7*time.Hour)))
	case *time.Location:
		field.Set(reflect.ValueOf(storetest.Zone(t, "Europe/Berlin")))
	default:
		t.Fatalf("the test knows no other value of a %s", field.Type())
	}
}

// TestSettings_Equal_takes_forms_of_one_meaning has settings that are written in two ways.
func TestSettings_Equal_takes_forms_of_one_meaning(t *testing.T) {
	for _, pair := range [][2]limiter.Settings{
		{{}, {Algorithm: limiter.DefaultAlgorithm}},
		{{Calendar: "day"}, {Calendar: "day", Algorithm: limiter.FixedWindow, Location: time.UTC, Window: 24 * time.Hour}},
		{{Calendar: "day", Location: storetest.Zone(t, "Europe/Berlin")}, {Calendar: "day", Location: storetest.Zone(t, "Europe/Berlin")}},
		{{MaxConcurrent: 3}, {MaxConcurrent: 3, NodeTimeout: limiter.DefaultNodeTimeout}},
		{{}, {Ban: []time.Duration{}, BanAfter: 1}},
		{{MaxDelay: new(time.Second)}, {MaxDelay: new(time.Second)}},
	} {
		assert.ErrorIf(t, !pair[0].Equal(pair[1]) || !pair[1].Equal(pair[0]), "%+v differs from\n%+v", pair[0], pair[1])
	}
}
