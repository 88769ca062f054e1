package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/atomicfile"
	"github.com/koalagate/koalagate/internal/findings"
	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/rules"
)

// standardInput is the PATH that means the standard input.
const standardInput = "-"

// formatter is one run of `koalagate fmt`.
type formatter struct {
	*program
	check, write bool
}

func (p *program) fmtCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "fmt [--check | --write] PATH…",
		Short: "Format rule files",
		Long: "Print rule files in canonical layout. PATH is a file, a folder of *.conf files, or - for the\n" +
			"standard input. Order, comments and meaning stay the same; deprecated spellings are replaced.\n" +
			"Word lists are not read. The exit code is 0, or 1 if a file has errors (it is left unchanged)\n" +
			"or, with --check, differs from its layout.",
		Example: "  koalagate fmt --check rules/\n  koalagate fmt --write rules.conf",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("nothing to format; name a rule file, a folder, or - for the standard input")
			}
			return nil
		},
	}
	f := formatter{program: p}
	c.Flags().BoolVar(&f.check, "check", false, "print only the names of files that differ from their layout")
	c.Flags().BoolVar(&f.write, "write", false, "replace files that differ from their layout, and print their names")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if f.check && f.write {
			return errors.New("--check and --write exclude each other")
		}
		if f.write && slices.Contains(args, standardInput) {
			return errors.New("--write cannot replace the standard input; remove - or --write")
		}
		return f.run(args)
	}
	return c
}

// run formats every file, including those after a file that has errors.
func (f *formatter) run(paths []string) error {
	sources, err := reload.Files{Paths: paths, Stdin: f.stdin}.Sources()
	if err != nil {
		return failure{err}
	}
	var faults []error
	reported := false
	for _, source := range sources {
		if err := f.file(source); errors.Is(err, errReported) {
			reported = true
		} else {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return failure{err}
	}
	if reported {
		return errReported
	}
	return nil
}

// file formats one file. It returns errReported for problems that it has
// printed.
func (f *formatter) file(source rules.Source) error {
	formatted, list := rules.Format(source)
	if list.HasErrors() {
		findings.WriteText(f.stderr, list)
		return errReported
	}
	same := bytes.Equal(formatted, source.Text)
	switch {
	case f.check && !same:
		fmt.Fprintln(f.stdout, source.Name)
		return errReported
	case f.write && !same:
		if err := atomicfile.Replace(source.Name, formatted); err != nil {
			return err
		}
		fmt.Fprintln(f.stdout, source.Name)
	case !f.check && !f.write:
		if _, err := f.contents.Write(formatted); err != nil {
			return err
		}
	}
	return nil
}
