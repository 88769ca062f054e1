package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/koalagate/koalagate/internal/atomicfile"
	"github.com/koalagate/koalagate/internal/gateways"
	"github.com/koalagate/koalagate/internal/reload"
)

// gatewayRun is one run of `koalagate gateway`.
type gatewayRun struct {
	*program
	files   reload.Files
	options gateways.Options
	out     string
	blocks  bool
}

func (p *program) gatewayCommand() *cobra.Command {
	kinds := strings.Join(gateways.Names(), "|")
	c := &cobra.Command{
		Use:   "gateway " + kinds + " --rules PATH",
		Short: "Print the configuration of a gateway",
		Long: "Print the whole configuration of a gateway for rule files: the sample, with the headers that\n" +
			"[forward] and [params] name, and with your addresses. The gateway drops forwarded headers of\n" +
			"clients on every way to the application. --out writes the files that the gateway needs; a file\n" +
			"that this command has not written is not replaced.",
		Example: "  koalagate gateway nginx --rules rules.conf --listen 0.0.0.0:80 --app 10.0.0.7:8000\n" +
			"  koalagate gateway haproxy --rules rules.conf --out /etc/haproxy\n" +
			"  koalagate gateway envoy --rules rules.conf --koalagate 10.0.0.8:9191,10.0.0.9:9191",
		ValidArgs: gateways.Names(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && slices.Contains(gateways.Names(), args[0]) {
				return nil
			}
			return errors.New("want one gateway: " + strings.ReplaceAll(kinds, "|", ", "))
		},
	}
	r := gatewayRun{program: p}
	addRulesFlags(c, &r.files)
	f := c.Flags()
	f.StringVar(&r.options.Listen, "listen", "", "`ADDRESS` where the gateway listens, such as 0.0.0.0:80 (default the sample's)")
	f.StringVar(&r.options.App, "app", "", "`ADDRESS` of the application (default the sample's, 127.0.0.1:8000)")
	f.StringSliceVar(&r.options.Koalagate, "koalagate", nil, "`ADDRESS` of each instance of koalagate, as http_addr, for envoy as grpc_addr (default the sample's)")
	f.StringVar(&r.out, "out", "", "write the files to this `DIR`")
	f.BoolVar(&r.blocks, "blocks", false, "print only the blocks that follow from the rules, for a configuration of your own")
	c.RunE = func(_ *cobra.Command, args []string) error { return r.run(args[0]) }
	return c
}

func (r *gatewayRun) run(kind string) error {
	if r.blocks && r.out != "" {
		return errors.New("--blocks and --out exclude each other")
	}
	set, err := r.loadRules(r.files)
	if err != nil {
		return err
	}
	if r.blocks {
		text, err := gateways.Blocks(kind, set)
		if err != nil {
			return failure{err}
		}
		return r.print(text)
	}
	files, err := gateways.Configure(kind, set, r.options)
	if err != nil {
		return failure{err}
	}
	if r.out == "" {
		return r.print(files[0].Text)
	}
	if err := r.write(files); err != nil {
		return failure{err}
	}
	return nil
}

func (r *gatewayRun) print(text string) error {
	_, err := r.contents.Write([]byte(text))
	return err
}

// write writes all files or, if one may not be replaced, none.
func (r *gatewayRun) write(files []gateways.File) error {
	for _, f := range files {
		path := filepath.Join(r.out, f.Name)
		old, err := os.ReadFile(path) //nolint:gosec // the operator names the folder
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case !bytes.Contains(old, []byte("koalagate gateway")):
			return fmt.Errorf("%s was not written by koalagate gateway; move it away, or write to another folder", path)
		}
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil { //nolint:gosec // gateways run as users of their own, and the files hold no secrets
		return err
	}
	for _, f := range files {
		path := filepath.Join(r.out, f.Name)
		if err := createFile(path); err != nil {
			return err
		}
		if err := atomicfile.Replace(path, []byte(f.Text)); err != nil {
			return err
		}
		fmt.Fprintln(r.stdout, path)
	}
	return nil
}

// createFile creates a file that everybody may read, unless it exists.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // as in write
	if err != nil {
		return err
	}
	return f.Close()
}
