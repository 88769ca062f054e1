package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/apikey"
	"github.com/koalagate/koalagate/rules"
)

// keyFlags are the flags of the commands for keys.
type keyFlags struct {
	table, timezone, prefix string
	publish                 bool // the change is also the next version
	published               bool // the table of the version in force is read
	of                      *publishing
	zone                    *time.Location
}

// The names of the flags that choose published rules.
const (
	publishFlag   = "publish"
	publishedFlag = "published"
)

func (p *program) keyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "key",
		Short: "Hand out API keys, and keep the table of their hashes",
		Long: "Hand out API keys, and keep a table of [tables] whose first column is the hash of a key, as `hashed` in\n" +
			"[params] makes it. The table never has a key. Its other columns are yours, such as tenant and plan;\n" +
			"created and expires have dates.",
		Example: "  koalagate key new --table keys.csv tenant=acme plan=gold\n" +
			"  koalagate key list --table keys.csv",
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("missing command; want list, new, revoke or verify")
		},
	}
	c.AddCommand(p.keyNewCommand(), p.keyListCommand(), p.keyRevokeCommand(), p.keyVerifyCommand())
	return c
}

// add adds the flags that all commands for keys have.
func (k *keyFlags) add(c *cobra.Command, installed installed) {
	k.of = &publishing{instance: instance{installed: installed}}
	c.Flags().StringVar(&k.table, "table", "", "CSV `FILE` of the table")
}

// addChange adds the flags of a change.
func (k *keyFlags) addChange(c *cobra.Command, installed installed) {
	k.add(c, installed)
	c.Flags().BoolVar(&k.publish, publishFlag, false, "also change the table of the published rules: the next version (see koalagate publish)")
	k.of.addVersion(c)
}

// addQuestion adds the flags of a command that changes nothing.
func (k *keyFlags) addQuestion(c *cobra.Command, installed installed) {
	k.add(c, installed)
	c.Flags().BoolVar(&k.published, publishedFlag, false, "read the table of the published rules in force instead of the file")
	k.of.instance.add(c)
}

func (k *keyFlags) addZone(c *cobra.Command) {
	c.Flags().StringVar(&k.timezone, "timezone", rules.DefaultTimezone, "time `ZONE` of dates, as the rules state it")
}

// check checks the flags. Unless isPublished, only --table, --timezone and the flags in others have
// an effect.
func (k *keyFlags) check(c *cobra.Command, isPublished bool, name string, others ...string) error {
	if k.table == "" {
		return errors.New("missing --table FILE, the table of the keys")
	}
	var err error
	if k.zone, err = time.LoadLocation(k.timezone); err != nil || strings.EqualFold(k.timezone, "local") {
		return fmt.Errorf("--timezone is %q; want a name such as Europe/Berlin", k.timezone)
	}
	return alone(c, isPublished, name, append(others, "table", "timezone", name))
}

func (p *program) keyNewCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "new --table FILE [COLUMN=VALUE…]",
		Short: "Make a key, and add its hash to the table",
		Long: "Make a key, and add a row with its hash to the table. The key is printed once, to the standard output,\n" +
			"when the row is on disk, and with --publish when it is in force. Nobody can print it again.\n\n" +
			"The key is PREFIX_, 32 random letters and digits, and a checksum. COLUMN is a column of the table. The\n" +
			"column created gets the date of today. expires is the last day on which the key is valid: rules refuse\n" +
			"it then by a condition such as `expires before now`.\n\n" +
			"If the table has a mistake, nothing changes. Commands that run at once wait for each other.",
		Example: "  koalagate key new --table keys.csv tenant=acme plan=gold expires=2027-12-31\n" +
			"  koalagate key new --table keys.csv --prefix live --publish tenant=acme",
	}
	k := new(keyFlags)
	k.addChange(c, p.installed)
	k.addZone(c)
	c.Flags().StringVar(&k.prefix, "prefix", apikey.DefaultPrefix, "`PREFIX` of the key: a-z, then up to 31 of a-z, 0-9 and _")
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		signal.Ignore(syscall.SIGPIPE) // a key that cannot be printed is taken back
		cells, err := parseCells(args)
		if err != nil {
			return err
		}
		if err := k.check(c, k.publish, publishFlag, "prefix"); err != nil {
			return err
		}
		key, err := apikey.New(k.prefix, rand.Reader)
		if err != nil {
			return fmt.Errorf("--prefix: %w", err)
		}
		if err := p.addKey(ctx, k, apikey.Hash(key), cells); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(p.stdout, key); err != nil {
			return p.takeBack(ctx, k, apikey.Hash(key), k.publish) // the program reports err
		}
		return nil
	}
	return c
}

// parseCells parses COLUMN=VALUE arguments. Its error does not quote one, which may be a key.
func parseCells(args []string) ([]apikey.Cell, error) {
	list := make([]apikey.Cell, 0, len(args))
	for i, arg := range args {
		column, value, found := strings.Cut(arg, "=")
		if !found || column == "" {
			return nil, fmt.Errorf("argument %d is not COLUMN=VALUE, such as tenant=acme", i+1)
		}
		list = append(list, apikey.Cell{Column: column, Value: value})
	}
	return list, nil
}

func (p *program) keyListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "list --table FILE",
		Short:   "List the hashes of the keys with their columns",
		Long:    "List the hashes of the keys with their columns, in the order of the table. The first eight digits of a\nhash name the key for `koalagate key revoke`.",
		Example: "  koalagate key list --table keys.csv",
		Args:    noArguments,
	}
	k := &keyFlags{timezone: rules.DefaultTimezone}
	k.addQuestion(c, p.installed)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := k.check(c, k.published, publishedFlag); err != nil {
			return err
		}
		t, err := p.readKeys(c.Context(), k)
		if err != nil {
			return err
		}
		return writeRows(p.stdout, t.Columns(), t.Rows())
	}
	return c
}

func (p *program) keyRevokeCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "revoke --table FILE ID",
		Short: "Remove a key from the table",
		Long: "Remove the row of a key from the table. ID is its hash, as `koalagate key list` prints it, or at least\n" +
			"the first eight digits, if no other key has them. The service reloads the table within two seconds.",
		Example: "  koalagate key revoke --table keys.csv 1f2e3d4c",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 { // an argument may be a key, so none is quoted
				return errors.New("want one ID, as `koalagate key list` prints it")
			}
			return nil
		},
	}
	k := &keyFlags{timezone: rules.DefaultTimezone}
	k.addChange(c, p.installed)
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err := k.check(c, k.publish, publishFlag); err != nil {
			return err
		}
		return p.revokeKey(ctx, k, args[0])
	}
	return c
}

func (p *program) keyVerifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "verify --table FILE",
		Short: "Look a key up in the table",
		Long: "Read a key from the standard input, and print its row. The exit code is 1 if the key is mistyped, unknown\n" +
			"or has expired, as the message says. An argument would be visible to all users of the machine.",
		Example: "  koalagate key verify --table keys.csv < key.txt",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 { // it is not quoted: logs would have the key
				return errors.New("unexpected argument; the key is read from the standard input, because arguments are visible to all users")
			}
			return nil
		},
	}
	k := new(keyFlags)
	k.addQuestion(c, p.installed)
	k.addZone(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := k.check(c, k.published, publishedFlag); err != nil {
			return err
		}
		return p.verifyKey(c.Context(), k)
	}
	return c
}

// maxKeyInput is the maximum size of the standard input of `koalagate key verify`, in bytes.
const maxKeyInput = 64 << 10

func (p *program) verifyKey(ctx context.Context, k *keyFlags) error {
	text, err := io.ReadAll(io.LimitReader(p.stdin, maxKeyInput+1))
	key := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return failed("reading the key from the standard input: %w", err)
	case len(text) > maxKeyInput:
		return failed("the standard input has more than %d bytes; want one key", maxKeyInput)
	case key == "":
		return failed("the standard input is empty; want the key")
	}
	t, err := p.readKeys(ctx, k)
	if err != nil {
		return err
	}
	row, err := t.Verify(key, time.Now(), k.zone)
	if err != nil {
		if row != nil {
			err = fmt.Errorf("%w (%s)", err, row.ID())
		}
		return failure{err}
	}
	return writeRows(p.stdout, t.Columns(), func(yield func(apikey.Row) bool) { yield(row) })
}
