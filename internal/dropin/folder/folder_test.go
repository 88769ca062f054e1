package folder_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/koalagate/koalagate/internal/dropin/folder"
	"github.com/koalagate/koalagate/internal/envoylimits"
)

// result is one call of apply: the domains that were read, or the error.
type result struct {
	domains string
	err     error
}

// run runs a folder until the end of the test.
func run(t *testing.T, o folder.Options) <-chan result {
	t.Helper()
	o.Poll = 50 * time.Millisecond
	results := make(chan result, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		folder.New(o).Run(ctx, func(list []*envoylimits.Config, err error) {
			var domains []string
			for _, c := range list {
				domains = append(domains, c.Name+"="+c.Domain)
			}
			results <- result{strings.Join(domains, " "), err}
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return results
}

// await returns when want was read.
func await(t *testing.T, results <-chan result, want string) {
	t.Helper()
	timeout := time.After(30 * time.Second)
	last := result{"nothing", nil}
	for {
		select {
		case last = <-results:
			if last.err == nil && last.domains == want {
				return
			}
		case <-timeout:
			t.Fatalf("read %q, %v; want %q", last.domains, last.err, want)
		}
	}
}

// write writes files, given as name and text.
func write(t *testing.T, files ...string) {
	t.Helper()
	for i := 0; i < len(files); i += 2 {
		if err := os.MkdirAll(filepath.Dir(files[i]), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(files[i], []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// link makes name a symbolic link to target, in one step.
func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

func TestSwappedLinkIsRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/one/rl/config/a.yaml", "domain: a", dir+"/one/rl/config/deep/b.yaml", "domain: b", dir+"/one/rl/other/c.yaml", "domain: c",
		dir+"/two/rl/config/d.yaml", "domain: d")
	root := dir + "/current"
	link(t, dir+"/one", root)
	results := run(t, folder.Options{Root: root, Sub: "rl", App: "config", WatchRoot: true})
	await(t, results, "config.a.yaml=a config.deep.b.yaml=b")
	write(t, dir+"/one/rl/config/a.yaml", "domain: changed")
	link(t, dir+"/two", root)
	await(t, results, "config.d.yaml=d")
	if len(results) > 0 {
		t.Errorf("the folder was also read as %v; a change below the link must not be", <-results)
	}
}

func TestChangedFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/config/a.yaml", "domain: a", dir+"/config/.hidden.yaml", "domain: hidden", dir+"/config/..data/x.yaml", "domain: x")
	results := run(t, folder.Options{Root: dir, App: "config", NoDots: true})
	await(t, results, "a.yaml=a")
	write(t, dir+"/config/b.yaml", "domain: b")
	await(t, results, "a.yaml=a b.yaml=b")
	write(t, dir+"/config/a.yaml", "domain: z")
	await(t, results, "a.yaml=z b.yaml=b")
	if err := os.Remove(dir + "/config/a.yaml"); err != nil {
		t.Fatal(err)
	}
	await(t, results, "b.yaml=b")
	write(t, dir+"/config/new/c.yaml", "domain: c")
	await(t, results, "b.yaml=b new.c.yaml=c")
}

func TestFaultyFileIsNamed(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/config/a.yaml", "domain: a", dir+"/config/b.yaml", "domian: b")
	_, err := folder.New(folder.Options{Root: dir, App: "config"}).Read()
	if want := "b.yaml: config error, unknown key 'domian'"; err == nil || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
}

// lines receives what is logged.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

func TestFolderMayComeLater(t *testing.T) {
	dir := t.TempDir()
	logged := make(lines, 10)
	results := run(t, folder.Options{Root: dir + "/current", App: "config", Logger: slog.New(slog.NewTextHandler(logged, nil))})
	await(t, results, "")
	if line := <-logged; !strings.Contains(line, "nothing is limited") || !strings.Contains(line, dir+"/current/config") {
		t.Errorf("logged %s", line)
	}
	write(t, dir+"/current/config/a.yaml", "domain: a")
	await(t, results, "a.yaml=a")
}

// A file that is too large to be limits is an error with its size, and is read no further.
func TestLargeFileIsAnError(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/config/a.yaml", "domain: a")
	if err := os.Truncate(dir+"/config/a.yaml", 64<<20+1); err != nil {
		t.Fatal(err)
	}
	results := run(t, folder.Options{Root: dir, App: "config"})
	if got := <-results; got.err == nil || !strings.Contains(got.err.Error(), "a.yaml: 67108865 bytes; want at most") {
		t.Errorf("%v; want the size of the file", got.err)
	}
	write(t, dir+"/config/a.yaml", "domain: b")
	await(t, results, "a.yaml=b")
}
