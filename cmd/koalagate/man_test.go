package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// A page has the texts of the help, and roff displays them as they are.
func TestManualPage(t *testing.T) {
	root := &cobra.Command{Use: "tool"}
	c := &cobra.Command{
		Use: "one FILE", Short: "Do one thing", Long: "Do it, as `tool two` does:\n.rules are read,\n'quoted' and C:\\ too.",
		Example: "  tool one --name x", RunE: func(*cobra.Command, []string) error { return nil },
	}
	c.AddCommand(&cobra.Command{Use: "b", Run: func(*cobra.Command, []string) {}}, &cobra.Command{Use: "a", Run: func(*cobra.Command, []string) {}},
		&cobra.Command{Use: "hidden", Hidden: true, Run: func(*cobra.Command, []string) {}})
	c.Flags().StringP("name", "n", "x", "the `NAME` of it")
	c.Flags().String("mode", "", "`MODE` of `tool` (default: none)")
	c.Flags().Int("old", 1, "")
	if err := c.Flags().MarkDeprecated("old", "use --name"); err != nil {
		t.Fatal(err)
	}
	root.PersistentFlags().Bool("all", false, "everything")
	root.AddCommand(c)
	want := `.nh
.TH "TOOL\-ONE" "1" "Jan 2026" "koalagate v1.2.3\-rc" "koalagate"
.SH NAME
tool\-one \- Do one thing
.SH SYNOPSIS
\fBtool one FILE [flags]\fP
.SH DESCRIPTION
Do it, as \fBtool two\fP does:
\&.rules are read,
\&'quoted' and C:\e too.
.SH OPTIONS
.TP
\fB\-h\fP, \fB\-\-help\fP
help for one
.TP
\fB\-\-mode\fP \fIMODE\fP
MODE of \fBtool\fP (default: none)
.TP
\fB\-n\fP, \fB\-\-name\fP \fINAME\fP
the NAME of it (default x)
.SH OPTIONS OF ALL COMMANDS
.TP
\fB\-\-all\fP
everything
.SH EXAMPLES
.EX
  tool one \-\-name x
.EE
.SH SEE ALSO
\fBtool\fP(1),
\fBtool\-one\-a\fP(1),
\fBtool\-one\-b\fP(1)
`
	if diff := cmp.Diff(want, manualPage(c, build{version: "v1.2.3-rc", date: "2026-01-02T03:04:05Z"})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
