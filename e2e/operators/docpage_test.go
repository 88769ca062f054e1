package operators_test

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/koalagate/koalagate/e2e"
	"github.com/koalagate/koalagate/e2e/certs"
	"github.com/koalagate/koalagate/e2e/internal/rig"
)

// docBlock is a block of commands in a page, and the output that the page shows below it.
type docBlock struct {
	line     int    // in the page
	untested string // why the commands are not run; "" if they are
	commands string
	output   string // "" for none
}

var (
	docFence    = regexp.MustCompile("(?ms)^( *)```([^\n]*)\n(.*?)^ *```$")
	docIndented = regexp.MustCompile(`(?m)\n\n {4}(?:koalagate|bin/koalagate|make|curl|sudo|docker|kubectl|helm|envoy|nginx|caddy|traefik) .*$`)
)

// docBlocks returns the blocks of a page that are marked sh. A block that cannot run on
// every machine says so: "sh untested: REASON". `make package` runs the blocks marked
// "sh systemd", on a machine with a package.
func docBlocks(t *testing.T, name, text string) []docBlock {
	t.Helper()
	if found := docIndented.FindString(docFence.ReplaceAllString(text, "")); found != "" {
		t.Errorf("%s: write commands into a block marked sh, so that they are tested: %s", name, strings.TrimSpace(found))
	}
	var blocks []docBlock
	for _, m := range docFence.FindAllStringSubmatchIndex(text, -1) {
		kind := text[m[4]:m[5]]
		body := strings.ReplaceAll("\n"+text[m[6]:m[7]], "\n"+text[m[2]:m[3]], "\n")[1:]
		word, reason, _ := strings.Cut(kind, " untested: ")
		switch {
		case word == "sh":
			blocks = append(blocks, docBlock{line: 1 + strings.Count(text[:m[6]], "\n"), untested: reason, commands: body})
		case kind == "sh systemd":
			blocks = append(blocks, docBlock{line: 1 + strings.Count(text[:m[6]], "\n"), untested: "make package runs it", commands: body})
		case word == "text" && len(blocks) > 0 && blocks[len(blocks)-1].untested == "":
			blocks[len(blocks)-1].output = body
		case strings.HasPrefix(kind, "sh") && kind != "sh":
			t.Errorf("%s: the block is marked %q; want sh, sh systemd, or sh untested: REASON", name, kind)
		}
	}
	return blocks
}

// The ports that the pages and the samples use. A page is run with free ones.
var docPorts = []string{"9191", "9981", "9982", "9983", "9980", "10000", "9901", "8000", "8080"}

// redisOfPages is the address of Redis in the pages.
const redisOfPages = "127.0.0.1:6379"

// docTree is a copy of the folders that commands of pages use, with free ports, and with
// gateways that wait for an instance on a busy machine.
type docTree struct {
	dir   string
	ports *strings.Replacer
	port  map[string]string // by the port of the page
}

// newDocTree returns a new copy. It starts a Redis if the commands use one.
func newDocTree(t *testing.T, stage *e2e.Stage, blocks []docBlock) *docTree {
	t.Helper()
	tree := &docTree{dir: t.TempDir(), port: make(map[string]string)}
	pairs := []string{
		"/etc/haproxy/", tree.dir + "/deploy/haproxy/installed/",
		"/etc/koalagate/", tree.dir + "/etc/", "/var/log/koalagate/", tree.dir + "/log/",
		"include /etc/nginx/mime.types;", docNginxPaths(tree.dir),
		"/var/log/nginx/access.log", tree.dir + "/nginx-access.log",
	}
	for _, port := range docPorts {
		address := rig.Must(e2e.FreeAddress())(t)
		_, free, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		tree.port[port] = free
		for _, before := range []string{"127.0.0.1:", "port_value: ", "http://:"} {
			pairs = append(pairs, before+port, before+free)
		}
	}
	if slices.ContainsFunc(blocks, func(b docBlock) bool { return b.untested == "" && strings.Contains(b.commands, redisOfPages) }) {
		pairs = append(pairs, redisOfPages, rig.Must(stage.Redis())(t).Address)
	}
	tree.ports = strings.NewReplacer(pairs...)
	for _, name := range []string{"examples", "envoy", "nginx", "deploy", "koalagate.example.yaml"} {
		tree.copy(t, stage.Path("."), stage.Path(name))
	}
	tree.install(t, stage)
	for _, dir := range []string{"bin", "log", "deploy/haproxy/installed"} {
		if err := os.MkdirAll(filepath.Join(tree.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(rig.Binary, filepath.Join(tree.dir, "bin", "koalagate")); err != nil {
		t.Fatal(err)
	}
	tree.writeCertificates(t)
	return tree
}

// install puts the sample rules and the settings where packages have them.
func (d *docTree) install(t *testing.T, stage *e2e.Stage) {
	t.Helper()
	for from, to := range map[string]string{
		"examples/gateway.conf": "etc/rules.d", "examples/lists": "etc/rules.d", "deploy/systemd/koalagate.yaml": "etc",
	} {
		d.copyTo(t, stage.Path(from[:strings.LastIndex(from, "/")]), stage.Path(from), filepath.Join(d.dir, to))
	}
}

// copy copies a file or folder of the module into the tree.
func (d *docTree) copy(t *testing.T, root, from string) {
	t.Helper()
	d.copyTo(t, root, from, d.dir)
}

// copyTo copies a file or folder below root into a folder.
func (d *docTree) copyTo(t *testing.T, root, from, into string) {
	t.Helper()
	if err := os.MkdirAll(into, 0o700); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		to := filepath.Join(into, name)
		if entry.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		patient, err := e2e.WithLongTimeouts(filepath.ToSlash(name), string(text))
		if err != nil {
			return err
		}
		out := d.ports.Replace(patient)
		if strings.HasPrefix(name, "nginx") {
			out = docNginxHead(d.dir) + out
		}
		return os.WriteFile(to, []byte(out), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// docNginxHead returns directives for an nginx that is not installed on this machine.
func docNginxHead(dir string) string {
	head := "pid " + dir + "/nginx.pid;\n"
	if os.Geteuid() == 0 {
		head += "user root;\n" // otherwise its workers could not access the folder
	}
	return head
}

// docNginxPaths returns the paths of nginx's buffers, whose default folders require root.
func docNginxPaths(dir string) string {
	var text strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&text, "%s_temp_path %s/nginx-%s; ", kind, dir, kind)
	}
	return text.String()
}

// writeCertificates writes the files that pages about TLS name.
func (d *docTree) writeCertificates(t *testing.T) {
	t.Helper()
	authority := rig.Must(certs.NewAuthority("authority"))(t)
	pair := rig.Must(authority.Sign("localhost"))(t)
	for name, text := range map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key, "callers.crt": authority.Cert} {
		if err := os.WriteFile(filepath.Join(d.dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
