package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/admin"
)

// The linker sets these in builds by deploy/build.sh. The date is the commit's,
// in RFC 3339.
var version, revision, date string

// build identifies the program.
type build struct{ version, revision, date string }

// thisBuild returns what the linker set, or else what the Go tools recorded.
func thisBuild() build {
	b := build{version: version, revision: revision, date: date}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if b.version == "" {
		b.version = info.Main.Version
	}
	recorded := make(map[string]string)
	for _, s := range info.Settings {
		recorded[s.Key] = s.Value
	}
	b.version = cmp.Or(b.version, "(devel)")
	b.revision = cmp.Or(b.revision, recorded["vcs.revision"], "unknown")
	b.date = cmp.Or(b.date, recorded["vcs.time"], "unknown")
	return b
}

// String describes the build on one line, without the name of the program.
func (b build) String() string {
	return fmt.Sprintf("%s (revision %s of %s, %s, %s/%s)", b.version, b.revision, b.date, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Print the version, the revision and its date, the Go version and the platform, as --version does.",
		Example: "  koalagate version",
		Args:    noArguments,
		RunE:    func(*cobra.Command, []string) error { return p.printVersion() },
	}
}

func (p *program) printVersion() error {
	fmt.Fprintf(p.stdout, "koalagate %s\n", thisBuild())
	return nil
}

// page returns the content of /version.
func (b build) page() admin.Version {
	return admin.Version{Version: b.version, Revision: b.revision, Date: b.date, Go: runtime.Version()}
}
