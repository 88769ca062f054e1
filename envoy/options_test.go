package envoy

import (
	"reflect"
	"testing"
)

// A negative number or duration is no bound that a mistake could disable, and none that
// refuses everything.
func TestNegativeOptionsAreTheDefaults(t *testing.T) {
	got, want := withDefaults(Options{
		MaxConnectionAge: -1, MaxConnectionAgeGrace: -1, KeepaliveMinTime: -1, IdleTimeout: -1, CallTimeout: -1,
		MaxMessageBytes: -1, MaxUnfinished: -1, MaxUnfinishedTotal: -1, MaxResets: -1, MaxSettings: -1,
		HandshakeTimeout: -1, DrainWait: -1,
	}), withDefaults(Options{})
	got.Exceeded, want.Exceeded = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v; want %+v", got, want)
	}
}
