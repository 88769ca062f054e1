package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/admin"
)

// version is set by the linker in a release.
var version string

// build identifies the program.
type build struct{ version, revision string }

// thisBuild returns the version that the linker set, or else the one that the Go
// tools recorded.
func thisBuild() build {
	b := build{version: version, revision: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if b.version == "" {
		b.version = info.Main.Version
	}
	if b.version == "" {
		b.version = "(devel)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.revision = s.Value
		}
	}
	return b
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			fmt.Fprintf(p.stdout, "koalagate %s (revision %s, %s, %s/%s)\n", b.version, b.revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	}
}

// page returns the content of /version.
func (b build) page() admin.Version {
	return admin.Version{Version: b.version, Revision: b.revision, Go: runtime.Version()}
}
