package redis

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
)

// TestDescriptionsAreRecalledOnce checks that a settlement forgets what it recalls, that a
// renewal does not, and that the slots of a receipt are kept apart.
func TestDescriptionsAreRecalledOnce(t *testing.T) {
	d := newDescriptions(1000)
	d.remember("#1", "a receipt", 7, []byte("one"))
	d.remember("#2", "a receipt", 8, []byte("two"))
	for _, c := range []struct {
		tag, id string
		spends  bool
		want    string
		taken   int64
	}{
		{"#1", "another", true, "", 0},
		{"#1", "a receipt", false, "one", 7},
		{"#1", "a receipt", true, "one", 7},
		{"#1", "a receipt", true, "", 0},
		{"#2", "a receipt", false, "two", 8},
	} {
		text, taken := d.recall(c.tag, c.id, c.spends)
		if string(text) != c.want || taken != c.taken {
			t.Errorf("%s of slot %s is recalled as %q at %d, want %q at %d", c.id, c.tag, text, taken, c.want, c.taken)
		}
	}
	if text, _ := newDescriptions(0).recall("#1", "a receipt", true); text != nil {
		t.Errorf("%q is recalled although nothing may be remembered", text)
	}
}

// TestDescriptionsForgetTheOldest remembers more receipts than there is room for: of those
// with the same places the youngest are left.
func TestDescriptionsForgetTheOldest(t *testing.T) {
	d := newDescriptions(1) // one set of places in each shard
	shards := map[*descriptionShard][]string{}
	for n := range 3000 {
		id := strconv.Itoa(n)
		d.remember("#r", id, int64(n), []byte(id))
		shard, _ := d.place("#r", id)
		shards[shard] = append(shards[shard], id)
	}
	for _, ids := range shards {
		for i, id := range ids {
			text, _ := d.recall("#r", id, false)
			if lasts := i >= len(ids)-descriptionWays; lasts != (string(text) == id) {
				t.Errorf("receipt %d of %d in a shard is recalled as %q", i+1, len(ids), text)
			}
		}
	}
}

// TestDescriptionsAreCopies recalls receipts whose places are taken by others meanwhile.
func TestDescriptionsAreCopies(t *testing.T) {
	d := newDescriptions(1)
	var group sync.WaitGroup
	for caller := range 8 {
		group.Go(func() {
			for n := range 500 {
				id := fmt.Sprint(caller, " ", n)
				d.remember("#r", id, int64(n), []byte(id))
				text, _ := d.recall("#r", id, n%2 == 0)
				d.remember("#r", "x"+id, int64(n), []byte("overwritten by this"))
				if text != nil && string(text) != id {
					t.Errorf("receipt %s is recalled as %q", id, text)
				}
			}
		})
	}
	group.Wait()
}
