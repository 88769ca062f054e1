package store_test

import (
	"testing"

	"github.com/koalagate/koalagate/store"
	"github.com/koalagate/koalagate/store/storetest"
)

// ways are the ways to Redis: with all that makes it quick, without any of it,
// and between. What is answered is the same.
var ways = map[string]func(*store.RedisOptions){
	"all on":       func(*store.RedisOptions) {},
	"all off":      storetest.Plain,
	"no short way": func(o *store.RedisOptions) { o.NoCountPath = true },
	"pipeline":     func(o *store.RedisOptions) { o.Batching = store.BatchPipeline },
}

func TestBehaviour(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store {
			m := store.NewMemory(store.MemoryOptions{})
			t.Cleanup(m.Close)
			return m
		})
	})
	for name, way := range ways {
		t.Run("redis, "+name, func(t *testing.T) {
			storetest.Run(t, storetest.Redis(t, way))
		})
	}
}
