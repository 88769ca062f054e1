package fleet

import (
	"errors"
	"fmt"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/koalagate/koalagate/internal/store/storetest"
)

// goneInstances returns the IDs of the instances that are gone, in the order of the list.
func goneInstances(t *testing.T, r *Records) (ids []string) {
	t.Helper()
	list, err := r.Instances(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if !list[i].Live {
			ids = append(ids, list[i].ID)
		}
	}
	return ids
}

// An instance that ended without taking leave stays in the list until it is dismissed, however long
// ago it ended. A live one cannot be dismissed, and what instances leave in Redis is bounded.
func TestGoneInstancesStay(t *testing.T) {
	p, live, _ := newFleet(t)
	server := p.r.client
	heard := func(id string, ago int64) {
		t.Helper()
		now, err := server.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		if err := server.ZAdd(t.Context(), p.r.keys.instances, goredis.Z{Score: float64(now.UnixMilli() - ago), Member: id}).Err(); err != nil {
			t.Fatal(err)
		}
		if err := server.HSet(t.Context(), p.r.keys.beats, id, `{"host":"edge","pid":7}`).Err(); err != nil {
			t.Fatal(err)
		}
	}
	const day = 24 * 3600 * 1000
	heard("new", 5000)
	heard("old", 400*day)
	heard("future", -day)
	storetest.Eventually(t, func() error { // a heartbeat bounds the list
		if ids := fmt.Sprint(goneInstances(t, p.r)); ids != "[new old]" {
			return fmt.Errorf("gone are %s; want new and old", ids)
		}
		return nil
	})
	one, err := p.r.Dismiss(t.Context(), "old")
	if err != nil || one.Host != "edge" || one.State != "gone" {
		t.Errorf("dismissed %+v, %v", one, err)
	}
	if _, err := p.r.Dismiss(t.Context(), "old"); !errors.Is(err, ErrUnknownInstance) {
		t.Errorf("dismissed again: %v", err)
	}
	if _, err := p.r.Dismiss(t.Context(), live.id); !errors.Is(err, ErrLiveInstance) {
		t.Errorf("dismissed a live one: %v", err)
	}
	for i := range 150 {
		heard(fmt.Sprintf("crowd-%03d", i), int64(10_000+1000*i))
	}
	storetest.Eventually(t, func() error {
		if ids := goneInstances(t, p.r); len(ids) != 100 || ids[0] != "new" || ids[99] != "crowd-098" {
			return fmt.Errorf("%d are gone: %v", len(ids), ids)
		}
		return nil
	})
}
