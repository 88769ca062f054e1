package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/reload"
	"github.com/koalagate/koalagate/rules"
)

// standardInput is the PATH that stands for the standard input.
const standardInput = "-"

// formatting is one run of `koalagate fmt`.
type formatting struct {
	*program
	check, write bool
}

func (p *program) fmtCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "fmt [--check | --write] PATH…",
		Short: "Lay rule files out",
		Long: "Print rule files in their canonical layout: files, folders of *.conf, and - for the standard input.\n" +
			"Order, comments and meaning stay; old spellings become new ones. Word lists are not looked at.\n" +
			"Exit code 0, or 1 if a file has errors (it is left as it is) or, with --check, differs.",
		Example: "  koalagate fmt --check rules/\n  koalagate fmt --write rules.conf",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("there is nothing to lay out; give a rule file, a folder, or - for the standard input")
			}
			return nil
		},
	}
	f := formatting{program: p}
	c.Flags().BoolVar(&f.check, "check", false, "print the names of files that differ from their layout, and nothing else")
	c.Flags().BoolVar(&f.write, "write", false, "replace files that differ from their layout, and print their names")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if f.check && f.write {
			return errors.New("--check writes nothing and --write does; leave one of them out")
		}
		if f.write && slices.Contains(args, standardInput) {
			return errors.New("the standard input cannot be written; take - or --write out")
		}
		return f.run(args)
	}
	return c
}

// run lays out every file, also behind one that cannot be.
func (f *formatting) run(paths []string) error {
	sources, err := reload.Files{Paths: paths, Stdin: f.stdin}.Sources()
	if err != nil {
		return failure{err}
	}
	var faults []error
	told := false
	for _, source := range sources {
		if err := f.file(source); errors.Is(err, errTold) {
			told = true
		} else {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return failure{err}
	}
	if told {
		return errTold
	}
	return nil
}

// file lays out one file. It returns errTold for what it has told itself.
func (f *formatting) file(source rules.Source) error {
	laid, findings := rules.Format(source)
	if findings.HasErrors() {
		printFindings(f.stderr, findings)
		return errTold
	}
	same := bytes.Equal(laid, source.Text)
	switch {
	case f.check && !same:
		fmt.Fprintln(f.stdout, source.Name)
		return errTold
	case f.write && !same:
		if err := replaceFile(source.Name, laid); err != nil {
			return err
		}
		fmt.Fprintln(f.stdout, source.Name)
	case !f.check && !f.write:
		if _, err := f.stdout.Write(laid); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile puts a new content in the place of a file at once: whoever reads
// it, the service among them, sees the old or the new one whole. Owner, group and
// mode stay, and a symbolic link stays one.
func replaceFile(path string, content []byte) (err error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(target)
	if err != nil {
		return err
	}
	// The name ends otherwise than a rule file's, so no folder takes it for one.
	next, err := os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+".*.new")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(next.Name()))
		}
	}()
	_, err = next.Write(content)
	if err = errors.Join(err, keepOwner(next, info), next.Chmod(info.Mode().Perm()), next.Sync(), next.Close()); err != nil {
		return err
	}
	return os.Rename(next.Name(), target)
}
