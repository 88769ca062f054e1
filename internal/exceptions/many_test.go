package exceptions_test

import (
	"flag"
	"strconv"
	"testing"
	"time"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/store/storetest"
	"github.com/koalagate/koalagate/rules"
)

var long = flag.Bool("long", false, "share 100,000 exceptions through Redis, and log how long it takes")

// count returns the number of exceptions of a keeper.
func count(k *exceptions.Keeper) (n int) {
	for _, of := range k.Counts() {
		n += of
	}
	return n
}

// As many exceptions as there may be reach another instance whole, and so does a single
// change of them.
func TestManyExceptionsThroughRedis(t *testing.T) {
	n := 5_000
	if *long {
		n = 100_000
	}
	keepers := share(t, storetest.StartServer(t), 2)
	list := make([]exceptions.Exception, n)
	for i := range list {
		list[i] = exception(1, "user-"+strconv.Itoa(i), exceptions.Allow)
	}
	reach := func(what string, begin time.Time, n int) {
		for count(keepers[1]) != n { // the timeout of the test bounds it
			time.Sleep(20 * time.Millisecond)
		}
		t.Logf("%s: %d exceptions at the other instance after %.2f s", what, n, time.Since(begin).Seconds())
	}
	begin := time.Now()
	added, err := keepers[0].Add(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d added in %.2f s", len(added), time.Since(begin).Seconds())
	reach("all", begin, n)
	begin = time.Now()
	if _, err := keepers[0].Remove(t.Context(), added[n/2].ID); err != nil {
		t.Fatal(err)
	}
	reach("one removed", begin, n-1)
	begin = time.Now()
	if _, err := keepers[0].Add(t.Context(), []exceptions.Exception{exception(1, "one more", exceptions.Deny)}); err != nil {
		t.Fatal(err)
	}
	reach("one added", begin, n)
}

// Each exception that is added alone applies, and costs little, however many there are.
func TestExceptionsAddedOneByOne(t *testing.T) {
	const before, runs = 20_000, 600
	set := parseRules(t, ruleText)
	k := exceptions.New(exceptions.Options{})
	k.Use(set)
	e := engine.New(set, engine.WithExceptions(k.Engine()))
	many := make([]exceptions.Exception, before)
	for i := range many {
		many[i] = exception(1, "before-"+strconv.Itoa(i), exceptions.Deny)
	}
	if _, err := k.Add(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	n := 0
	allocations := testing.AllocsPerRun(runs, func() {
		n++
		if _, err := k.Add(t.Context(), []exceptions.Exception{exception(1, "one-"+strconv.Itoa(n), exceptions.Deny)}); err != nil {
			t.Fatal(err)
		}
	})
	if allocations > before/10 {
		t.Errorf("%.0f allocations for one exception among %d", allocations, before)
	}
	refused := func(uid string) bool {
		p := rules.MakeParams(map[string]string{"act": "post", "uid": uid})
		d, err := e.Decide(t.Context(), &engine.Call{Op: engine.Browse, Inputs: []engine.Input{{Params: p}}})
		return err == nil && !d.Allowed()
	}
	for i := range n {
		if uid := "one-" + strconv.Itoa(i+1); !refused(uid) {
			t.Fatalf("%s is allowed", uid)
		}
	}
	list := k.List()
	removed, kept := list[0], list[len(list)-1]
	if _, err := k.Remove(t.Context(), removed.ID); err != nil {
		t.Fatal(err)
	}
	if refused(removed.Identity["uid"]) || !refused(kept.Identity["uid"]) || count(k) != before+n-1 {
		t.Errorf("after %s was removed, %d are left", removed.Identity["uid"], count(k))
	}
}
