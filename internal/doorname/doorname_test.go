package doorname_test

import (
	"slices"
	"testing"

	"github.com/koalagate/koalagate/internal/doorname"
)

func TestServedDoorsAreAllButTheMiddleware(t *testing.T) {
	all, served := doorname.All(), doorname.Served()
	if want := append(served, doorname.Middleware); !slices.Equal(all, want) {
		t.Errorf("all doors are %q; want %q", all, want)
	}
	for _, name := range all {
		if got, want := doorname.IsServed(name), name != doorname.Middleware; got != want {
			t.Errorf("IsServed(%q) = %v; want %v", name, got, want)
		}
	}
}

func TestRulesKnowTheProgramToo(t *testing.T) {
	if got, want := doorname.InRules(), append(doorname.All(), "program"); !slices.Equal(got, want) {
		t.Errorf("rules know %q; want %q", got, want)
	}
}

func TestCallersCannotChangeTheList(t *testing.T) {
	doorname.All()[0], doorname.Served()[0] = "", ""
	if doorname.All()[0] != doorname.ExtAuthz || doorname.Served()[0] != doorname.ExtAuthz {
		t.Error("a caller's change reached the list")
	}
}
