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

// Each door reads a request or has its parameters named, and describes who calls it.
func TestDeclarationsAreWhole(t *testing.T) {
	for _, name := range doorname.InRules() {
		d := doorname.Of(name)
		if d.Name != name || d.Text == "" {
			t.Errorf("the door %s is declared as %+v", name, d)
		}
		if hasOrigin := d.Adds != doorname.None && d.Adds != doorname.Own; hasOrigin != (d.Origin != "") {
			t.Errorf("%s: the origin %q of what it adds", name, d.Origin)
		}
		if (d.Timeout > 0) != (d.Filter != "") {
			t.Errorf("%s: a timeout of %d ms of %q", name, d.Timeout, d.Filter)
		}
		for _, word := range d.Gateways {
			if got := doorname.Misnamed(word); got != name {
				t.Errorf("the gateway %s has the door %q; want %q", word, got, name)
			}
		}
		if !d.IsKnown() || d.NamesParams() && (d.ParamHeaders || d.Hops || d.Attributes || d.Placeholders || d.JoinedCookies) {
			t.Errorf("%s reads headers, and no request", name)
		}
	}
}

func TestUnknownDoors(t *testing.T) {
	for _, name := range []string{"", "envoy", "ExtAuthz"} {
		if d := doorname.Of(name); d.IsKnown() || d.NamesParams() || d.SetsAll() || d.Reads != doorname.Nothing {
			t.Errorf("%q is the door %+v", name, d)
		}
	}
	if got := doorname.Misnamed("telnet"); got != "" {
		t.Errorf("telnet stands for %q", got)
	}
}
