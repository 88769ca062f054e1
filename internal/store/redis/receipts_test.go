package redis_test

import (
	"testing"

	"github.com/koalagate/koalagate/internal/store/storetest"
)

func TestReceipts(t *testing.T) {
	for _, way := range storetest.Ways(true) {
		t.Run(way.Name, func(t *testing.T) { storetest.RunReceipts(t, storetest.Redis(t, way.Set)) })
	}
}
