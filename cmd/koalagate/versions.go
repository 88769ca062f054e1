package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/fleet"
	"github.com/koalagate/koalagate/internal/printable"
)

// checkVersion returns an error unless the text is the number of a version.
func checkVersion(text string) error {
	if n, err := strconv.ParseUint(text, 10, 53); err != nil || n == 0 {
		return fmt.Errorf("%q is not the number of a version", text)
	}
	return nil
}

// query is a command that gets a document from an instance and prints it.
type query[T any] struct {
	program *program
	noun    string // what the help calls the document
	path    func(args []string) string
	write   func(io.Writer, *T) error // prints it as text
}

// complete gives c its flags and its action, and returns it.
func (q query[T]) complete(c *cobra.Command) *cobra.Command {
	i := instance{installed: q.program.installed}
	format := choice{value: "text", among: []string{"text", "json"}}
	i.add(c)
	c.Flags().Var(&format, "format", "`FORMAT` of the "+q.noun+": text or json (docs/formats.md)")
	c.RunE = func(c *cobra.Command, args []string) error {
		document := new(T)
		if err := i.call(c.Context(), q.program.environ, http.MethodGet, q.path(args), nil, document); err != nil {
			return err
		}
		if format.value == "json" {
			return display.JSON(q.program.stdout, document)
		}
		return q.write(q.program.stdout, document)
	}
	return c
}

// removal is a command that removes documents of an instance by their IDs.
type removal[T any] struct {
	program *program
	path    string          // before an ID
	said    func(*T) string // what it prints of a removed document
}

// complete gives c its flag, its action and an error that says what an ID is of, and returns it.
func (r removal[T]) complete(c *cobra.Command, of string) *cobra.Command {
	i := instance{installed: r.program.installed}
	i.add(c)
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return errors.New("want the ID of " + of)
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, ids []string) error {
		for _, id := range ids {
			removed := new(T)
			if err := i.call(c.Context(), r.program.environ, http.MethodDelete, r.path+url.PathEscape(id), nil, removed); err != nil {
				return fmt.Errorf("%s: %w", id, err)
			}
			display.Printf(r.program.stdout, "%s\n", r.said(removed))
		}
		return nil
	}
	return c
}

func (p *program) versionsCommand() *cobra.Command {
	q := query[[]adminapi.Version]{p, "list", func([]string) string { return "versions" }, writeVersions}
	c := q.complete(&cobra.Command{
		Use:     "versions",
		Short:   "List published versions of the rules, newest first",
		Example: "  koalagate versions\n  koalagate versions --format json",
		Args:    noArguments,
	})
	c.AddCommand(p.showCommand(), p.versionsDiffCommand())
	return c
}

func writeVersions(w io.Writer, list *[]adminapi.Version) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "version\tat\tauthor\trules\thash\tnote")
	for _, v := range *list {
		mark := ""
		if v.InForce {
			mark = " *"
		}
		if v.Problem != "" {
			display.Printf(t, "%d%s\t%s\n", v.Version, mark, v.Problem)
			continue
		}
		display.Printf(t, "%d%s\t%s\t%s\t%d\t%.12s\t%s\n", v.Version, mark, v.At.Format(time.RFC3339), v.Author, v.Rules, v.Hash, v.Note)
	}
	return t.Flush()
}

func (p *program) showCommand() *cobra.Command {
	path := func(args []string) string { return "versions/" + args[0] }
	return query[adminapi.VersionDetail]{p, "version", path, writeVersion}.complete(&cobra.Command{
		Use:     "show VERSION",
		Short:   "Print a published version with its rule files",
		Example: "  koalagate versions show 12",
		Args:    oneVersion,
	})
}

func writeVersion(w io.Writer, v *adminapi.VersionDetail) error {
	display.Printf(w, "version %d of %s by %s, after version %d, %s, hash %s\n", v.Version.Version, v.At.Format(time.RFC3339), v.Author, v.Before, printable.Count(v.Rules, "rule"), v.Hash)
	if v.Note != "" {
		display.Printf(w, "%s\n", v.Note)
	}
	for _, l := range v.Lists {
		display.Printf(w, "list %s of %s: %d bytes, sha256 %s\n", l.Path, l.Source, l.Size, l.Hash)
	}
	for _, f := range v.Files {
		display.Printf(w, "\n-- %s --\n", f.Name)
		fmt.Fprint(w, display.Text(f.Text))
	}
	return nil
}

// oneVersion rejects a command line without the number of one version.
func oneVersion(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("want the number of one version")
	}
	return checkVersion(args[0])
}

func (p *program) versionsDiffCommand() *cobra.Command {
	path := func(args []string) string { return "differences/" + args[0] + "/" + args[1] }
	return query[adminapi.Difference]{p, "changes", path, writeDifference}.complete(&cobra.Command{
		Use:     "diff OLD NEW",
		Short:   "Print what changed from one published version to another",
		Example: "  koalagate versions diff 11 12",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("want the numbers of two versions")
			}
			return errors.Join(checkVersion(args[0]), checkVersion(args[1]))
		},
	})
}

func writeDifference(w io.Writer, d *adminapi.Difference) error {
	if d.Changes != nil {
		display.Printf(w, "%s\n", d.Changes)
	}
	return nil
}

func (p *program) instancesCommand() *cobra.Command {
	q := query[[]fleet.Instance]{p, "list", func([]string) string { return "instances" }, writeInstances}
	c := q.complete(&cobra.Command{
		Use:   "instances",
		Short: "List the instances that share published rules",
		Long: "List the instances that share published rules. One that ended without taking leave is gone: it\n" +
			"stays in the list until it is dismissed, the 100 latest of them.",
		Example: "  koalagate instances\n  koalagate instances --admin 10.0.0.7:9982 --token-file admin.token",
		Args:    noArguments,
	})
	c.AddCommand(p.dismissCommand())
	return c
}

func (p *program) dismissCommand() *cobra.Command {
	said := func(one *fleet.Instance) string {
		return fmt.Sprintf("dismissed %s (%s, pid %d)", one.ID, one.Host, one.PID)
	}
	return removal[fleet.Instance]{p, "instances/", said}.complete(&cobra.Command{
		Use:     "dismiss ID…",
		Short:   "Remove instances that are gone from the list",
		Example: "  koalagate instances dismiss 9f3c52d07a1be684",
	}, "an instance, as `instances` shows it")
}

func writeInstances(w io.Writer, list *[]fleet.Instance) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "id\thost\tpid\tprogram\tversion\tstate\tstore\tmodes\tlast error")
	for _, one := range *list {
		display.Printf(t, "%s\t%s\t%d\t%s\t%d\t%s\t%s\t%.200s\t%.200s\n", one.ID, one.Host, one.PID, one.Program, one.Version, one.State, one.Store, modesText(one.Modes), one.LastError)
	}
	return t.Flush()
}

// modesText returns the modes of the doors that do not enforce.
func modesText(modes map[string]string) string {
	var list []string
	for _, door := range slices.Sorted(maps.Keys(modes)) {
		if modes[door] != string(engine.ModeEnforce) {
			list = append(list, door+"="+modes[door])
		}
	}
	return cmp.Or(strings.Join(list, ","), "enforce")
}
