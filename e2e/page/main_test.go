package page

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/koalagate/koalagate/e2e"
)

// patience bounds each wait. A busy machine is slow, and no test waits longer than it must.
var patience = flag.Duration("patience", time.Minute, "the longest wait of one step")

// long has what is large, rare or small tested, too, beside what operators do each day.
var long = flag.Bool("long", false, "test large rule sets, rare events and single sentences, too")

// What the tests share: the service, the browser, and the folder of the pictures.
var (
	binary   string
	browser  context.Context
	pictures string
)

// evil is a host name that leads the browser to this machine, as a hostile DNS could.
const evil = "evil.example"

func TestMain(m *testing.M) {
	flag.Parse()
	status, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// run builds the service, starts the browser and runs the tests.
func run(m *testing.M) (status int, err error) {
	dir, err := os.MkdirTemp("", "koalagate-page-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	stage, err := e2e.NewStage(dir)
	if err != nil {
		return 1, err
	}
	pictures = stage.Path("out/page")
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		return 1, err
	}
	chromium, err := stage.Find("chromium-headless-shell")
	if err != nil {
		return 1, err
	}
	binary = filepath.Join(dir, "koalagate")
	if err := stage.Build(binary, false); err != nil {
		return 1, err
	}
	fonts, err := fontsFile(stage, dir)
	if err != nil {
		return 1, err
	}
	// Without its sandbox it runs as root, too; it loads the pages of this test alone.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("host-resolver-rules", "MAP "+evil+" 127.0.0.1"), chromedp.WSURLReadTimeout(*patience), chromedp.UserDataDir(filepath.Join(dir, "profile")), chromedp.Env("FONTCONFIG_FILE="+fonts))
	allocated, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	defer cancel()
	ctx, end := chromedp.NewContext(allocated, chromedp.WithErrorf(func(format string, args ...any) {
		if !strings.HasPrefix(format, "unhandled ") { // events that this version of chromedp does not know
			fmt.Fprintf(os.Stderr, format+"\n", args...)
		}
	}))
	defer end()
	if err := chromedp.Run(ctx); err != nil {
		return 1, fmt.Errorf("starting Chromium: %w", err)
	}
	browser = ctx
	return m.Run(), nil
}

// fontsFile writes the configuration of the fonts: the fonts of the system and, on a system
// without any, the fonts that e2e/programs.sh has unpacked with the browser.
func fontsFile(stage *e2e.Stage, dir string) (string, error) {
	file := filepath.Join(dir, "fonts.conf")
	const sans = "<prefer><family>DejaVu Sans</family></prefer></alias>"
	text := fmt.Sprintf("<fontconfig><dir>/usr/share/fonts</dir><dir>%s</dir><cachedir>%s</cachedir>"+
		"<alias><family>system-ui</family>"+sans+"<alias><family>sans-serif</family>"+sans+"</fontconfig>\n",
		stage.Path(".tools/debian/usr/share/fonts"), filepath.Join(dir, "fonts"))
	return file, os.WriteFile(file, []byte(text), 0o600)
}
