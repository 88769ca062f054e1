package main

import (
	"slices"
	"testing"

	"github.com/spf13/pflag"

	"github.com/koalagate/koalagate/internal/config"
)

func TestFlagsHaveTheDefaultsOfTheirKeys(t *testing.T) {
	s := addSettings((&program{}).versionCommand())
	s.flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != configFlag && !slices.Contains(config.Keys(), keyOf(f)) {
			t.Errorf("--%s sets the unknown key %s", f.Name, keyOf(f))
		}
	})
	loaded, err := s.load(nil)
	if err != nil {
		t.Fatal(err)
	}
	for key, source := range loaded.Sources {
		if source != "default" {
			t.Errorf("%s comes from %s; want its default", key, source)
		}
	}
}
