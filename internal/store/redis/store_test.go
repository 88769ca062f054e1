package redis_test

import (
	"testing"

	"github.com/koalagate/koalagate/internal/store"
	"github.com/koalagate/koalagate/internal/store/storetest"
)

func TestBehavior(t *testing.T) {
	for _, way := range storetest.Ways(*long) {
		t.Run(way.Name, func(t *testing.T) { storetest.Run(t, storetest.Redis(t, way.Set)) })
	}
	t.Run("on and off in turn", func(t *testing.T) {
		server := storetest.StartServer(t)
		storetest.Run(t, func(t *testing.T) store.Store { return server.OpenInTurn(t) })
	})
}
