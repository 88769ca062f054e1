package exceptions_test

import (
	"flag"
	"strconv"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/exceptions"
	"github.com/koalagate/koalagate/internal/store/storetest"
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
