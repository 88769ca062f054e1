package main

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/adminapi"
	"github.com/koalagate/koalagate/internal/display"
	"github.com/koalagate/koalagate/internal/fleet"
)

// checkVersion returns an error unless the text is the number of a version.
func checkVersion(text string) error {
	if n, err := strconv.ParseUint(text, 10, 53); err != nil || n == 0 {
		return fmt.Errorf("%q is not the number of a version", text)
	}
	return nil
}

func (p *program) versionsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "versions",
		Short: "List published versions of the rules, newest first",
		Args:  noArguments,
	}
	var i instance
	format := choice{value: "text", among: []string{"text", "json"}}
	i.add(c)
	c.Flags().Var(&format, "format", "`FORMAT` of the list: text or json (docs/formats.md)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var list []adminapi.Version
		if err := i.call(c.Context(), p.environ, http.MethodGet, "versions", nil, &list); err != nil {
			return err
		}
		if format.value == "json" {
			return display.JSON(p.stdout, list)
		}
		t := tabwriter.NewWriter(p.stdout, 0, 8, 2, ' ', 0)
		fmt.Fprintln(t, "version\tat\tauthor\trules\thash\tnote")
		for _, v := range list {
			mark := ""
			if v.InForce {
				mark = " *"
			}
			if v.Problem != "" {
				fmt.Fprintf(t, "%d%s\t%s\n", v.Version, mark, v.Problem)
				continue
			}
			fmt.Fprintf(t, "%d%s\t%s\t%s\t%d\t%.12s\t%s\n", v.Version, mark, v.At.Format(time.RFC3339), v.Author, v.Rules, v.Hash, v.Note)
		}
		return t.Flush()
	}
	c.AddCommand(p.showCommand(), p.versionsDiffCommand())
	return c
}

func (p *program) showCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "show VERSION",
		Short: "Print a published version with its rule files",
		Args:  oneVersion,
	}
	var i instance
	format := choice{value: "text", among: []string{"text", "json"}}
	i.add(c)
	c.Flags().Var(&format, "format", "`FORMAT` of the version: text or json (docs/formats.md)")
	c.RunE = func(c *cobra.Command, args []string) error {
		var v adminapi.VersionDetail
		if err := i.call(c.Context(), p.environ, http.MethodGet, "versions/"+args[0], nil, &v); err != nil {
			return err
		}
		if format.value == "json" {
			return display.JSON(p.stdout, &v)
		}
		fmt.Fprintf(p.stdout, "version %d of %s by %s, after version %d, %d rules, hash %s\n", v.Version.Version, v.At.Format(time.RFC3339), v.Author, v.Before, v.Rules, v.Hash)
		if v.Note != "" {
			fmt.Fprintln(p.stdout, v.Note)
		}
		for _, l := range v.Lists {
			fmt.Fprintf(p.stdout, "list %s of %s: %d bytes, sha256 %s\n", l.Path, l.Source, l.Size, l.Hash)
		}
		for _, f := range v.Files {
			fmt.Fprintf(p.stdout, "\n-- %s --\n%s", f.Name, f.Text)
		}
		return nil
	}
	return c
}

// oneVersion rejects a command line without the number of one version.
func oneVersion(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("want the number of one version")
	}
	return checkVersion(args[0])
}

func (p *program) versionsDiffCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Print what changed from one published version to another",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("want the numbers of two versions")
			}
			for _, arg := range args {
				if err := checkVersion(arg); err != nil {
					return err
				}
			}
			return nil
		},
	}
	var i instance
	format := choice{value: "text", among: []string{"text", "json"}}
	i.add(c)
	c.Flags().Var(&format, "format", "`FORMAT` of the changes: text or json (docs/formats.md)")
	c.RunE = func(c *cobra.Command, args []string) error {
		var d adminapi.Difference
		if err := i.call(c.Context(), p.environ, http.MethodGet, "differences/"+args[0]+"/"+args[1], nil, &d); err != nil {
			return err
		}
		if format.value == "json" {
			return display.JSON(p.stdout, &d)
		}
		if d.Changes != nil {
			fmt.Fprintln(p.stdout, d.Changes)
		}
		return nil
	}
	return c
}

func (p *program) instancesCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "instances",
		Short: "List the instances that share published rules",
		Args:  noArguments,
	}
	var i instance
	format := choice{value: "text", among: []string{"text", "json"}}
	i.add(c)
	c.Flags().Var(&format, "format", "`FORMAT` of the list: text or json (docs/formats.md)")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var list []fleet.Instance
		if err := i.call(c.Context(), p.environ, http.MethodGet, "instances", nil, &list); err != nil {
			return err
		}
		if format.value == "json" {
			return display.JSON(p.stdout, list)
		}
		t := tabwriter.NewWriter(p.stdout, 0, 8, 2, ' ', 0)
		fmt.Fprintln(t, "id\thost\tpid\tprogram\tversion\tstate\tstore\tlast error")
		for _, one := range list {
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\t%s\t%s\t%.200s\n", one.ID, one.Host, one.PID, one.Program, one.Version, one.State, one.Store, one.LastError)
		}
		return t.Flush()
	}
	return c
}
