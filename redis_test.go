package koalagate

import (
	"reflect"
	"slices"
	"testing"

	"github.com/koalagate/koalagate/internal/store/memory"
	"github.com/koalagate/koalagate/internal/store/redis"
)

// RedisOptions has every option of the store in Redis but the URL and the prefix, which
// are options of their own, and those of the service's trials of rules.
func TestRedisOptionsAreThoseOfTheStore(t *testing.T) {
	notPublic, notPassed := []string{"URL", "Prefix", "Space", "Until"}, []string{"Client", "Space", "Until"}
	public, internal := reflect.TypeFor[RedisOptions](), reflect.TypeFor[redis.Options]()
	for _, f := range reflect.VisibleFields(internal) {
		if _, ok := public.FieldByName(f.Name); !ok && !slices.Contains(notPublic, f.Name) {
			t.Errorf("RedisOptions has no %s", f.Name)
		}
	}
	var o Options
	all := reflect.ValueOf(&o.RedisOptions).Elem()
	for i := range all.NumField() {
		fill(all.Field(i))
	}
	o.Redis, o.RedisPrefix = "redis://127.0.0.1", "prefix"
	passed := reflect.ValueOf(*o.redis())
	for _, f := range reflect.VisibleFields(internal) {
		if v := passed.FieldByIndex(f.Index); !slices.Contains(notPassed, f.Name) && v.IsZero() {
			t.Errorf("%s is not passed on", f.Name)
		}
	}
	if b := []Batching{BatchScript, BatchPipeline, BatchOff}; redis.Batching(b[0]) != redis.BatchScript || redis.Batching(b[1]) != redis.BatchPipeline || redis.Batching(b[2]) != redis.BatchOff {
		t.Errorf("the ways of batching are %q; want the store's", b)
	}
}

// fill sets v to a value other than zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value { return nil }))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	default: // an interface keeps its zero value
	}
}

func TestDefaultsOfRedisOptionsAreThoseOfTheStore(t *testing.T) {
	if redis.DefaultBudget.String() != "100ms" || redis.DefaultRefusals != 32_768 || redis.DefaultReceipts != 16_384 || memory.DefaultMaxIdentities != 1_000_000 {
		t.Error("the comments of Options and RedisOptions name other defaults than the store's")
	}
}
