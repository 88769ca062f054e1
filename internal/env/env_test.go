package env_test

import (
	"testing"

	"github.com/koalagate/koalagate/internal/env"
)

func TestValue(t *testing.T) {
	environ := []string{"HOME=/", "EMPTY=", "NOTHING", "URL=a=b", "TWICE=1", "TWICE=2"}
	for name, want := range map[string]string{"HOME": "/", "EMPTY": "", "NOTHING": "", "URL": "a=b", "TWICE": "1", "HOM": "", "MISSING": "", "": ""} {
		if got := env.Value(environ, name); got != want {
			t.Errorf("%s is %q; want %q", name, got, want)
		}
	}
}
