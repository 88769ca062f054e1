package store_test

import (
	"testing"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

func TestBehaviour(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store {
			m := store.NewMemory(store.MemoryOptions{})
			t.Cleanup(m.Close)
			return m
		})
	})
	for _, way := range storetest.Ways(true) { // each takes less than a second
		t.Run("redis, "+way.Name, func(t *testing.T) { storetest.Run(t, storetest.Redis(t, way.Set)) })
	}
	t.Run("redis, on and off in turn", func(t *testing.T) {
		server := storetest.StartServer(t)
		storetest.Run(t, func(t *testing.T) store.Store { return server.OpenInTurn(t) })
	})
}
