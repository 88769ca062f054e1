package store_test

import (
	"testing"

	"github.com/koalagate/koalagate/store"
	"github.com/koalagate/koalagate/store/storetest"
)

func TestBehaviour(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store {
			m := store.NewMemory(store.MemoryOptions{})
			t.Cleanup(m.Close)
			return m
		})
	})
	t.Run("redis", func(t *testing.T) {
		storetest.Run(t, storetest.Redis(t))
	})
}
