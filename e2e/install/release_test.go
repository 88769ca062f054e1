package install_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tagged clones the commit, names version 0.9.9 in its changelog, and returns the folder of the
// clone and the file of a key. The clone has no tag yet.
func tagged(t *testing.T) (clone, key string) {
	t.Helper()
	folder := t.TempDir()
	clone, key = filepath.Join(folder, "clone"), filepath.Join(folder, "key.pem")
	run(t, nil, "git", "clone", "--quiet", ".", clone)
	path := filepath.Join(clone, "CHANGELOG.md")
	write(t, path, strings.Replace(read(t, path), "\n## [", "\n## [0.9.9] - 2026-01-02\n\n## [", 1))
	gitIn(t, clone, "commit", "--quiet", "--all", "--message", "Name the version")
	run(t, nil, "openssl", "genpkey", "-algorithm", "ed25519", "-out", key)
	return clone, key
}

// gitIn runs git in a clone, as an author of the test.
func gitIn(t *testing.T, clone string, args ...string) {
	t.Helper()
	run(t, nil, "git", append([]string{"-C", clone, "-c", "user.name=test", "-c", "user.email=test@example.org"}, args...)...)
}

// No release is made from what no tag has, over files of another one, or without its signature.
// Nothing is left behind.
func TestReleaseRefuses(t *testing.T) {
	clone, key := tagged(t)
	other := filepath.Join(t.TempDir(), "other.pem")
	run(t, nil, "openssl", "genpkey", "-algorithm", "x25519", "-out", other)
	out := filepath.Join(t.TempDir(), "out")
	dirt := filepath.Join(clone, "dirt")
	for _, c := range []struct {
		name     string
		prepare  func()
		out, key string
		want     string
	}{
		{"no folder", nil, "", key, "want a folder for the files and the key"},
		{"no key", nil, out, "", "want a folder for the files and the key"},
		{"a folder that exists", nil, filepath.Dir(out), key, " exists; name a folder that does not"},
		{"a key that is no file", nil, out, out, "is no Ed25519 key in PEM; make one with"},
		{"another kind of key", nil, out, other, "is no Ed25519 key in PEM; make one with"},
		{"no tag", nil, out, key, "the commit has no tag of a version"},
		{"a tag of no version", func() { gitIn(t, clone, "tag", "v1.2") }, out, key, "the tag is v1.2; want vX.Y.Z"},
		{"a version without a heading", func() {
			gitIn(t, clone, "tag", "--delete", "v1.2")
			gitIn(t, clone, "tag", "v7.7.7")
		}, out, key, `CHANGELOG.md: want the heading "## [7.7.7] - YYYY-MM-DD"`},
		{"a new file", func() { write(t, dirt, "") }, out, key, "the tree has changes that the tag does not"},
		{"a changed file", func() {
			if err := os.Rename(dirt, filepath.Join(clone, "README.md")); err != nil {
				t.Fatal(err)
			}
		}, out, key, " M README.md"},
	} {
		if c.prepare != nil {
			c.prepare()
		}
		command := exec.CommandContext(t.Context(), "make", "--no-print-directory", "release", "OUT="+c.out, "KEY="+c.key)
		command.Dir = clone
		text, err := command.CombinedOutput()
		if err == nil || !strings.Contains(string(text), c.want) {
			t.Errorf("%s: %v, want an error with %q:\n%s", c.name, err, c.want, text)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(out)); err != nil || len(left) > 0 {
		t.Errorf("refused releases left %v, %v", left, err)
	}
}

// A tagged commit makes the files of a release, and makes them equally again. They are signed,
// list what is in them, and are what their own tools read.
func TestRelease(t *testing.T) {
	if !*long {
		return
	}
	clone, key := tagged(t)
	gitIn(t, clone, "tag", "v0.9.9")
	first, again := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "again")
	for _, out := range []string{first, again} {
		run(t, nil, "make", "-C", clone, "release", "OUT="+out, "KEY="+key)
	}
	run(t, nil, "diff", "--recursive", first, again)

	want := []string{
		"checksums.txt", "checksums.txt.sig", "koalagate-0.9.9-1.aarch64.rpm", "koalagate-0.9.9-1.x86_64.rpm", "koalagate-0.9.9.tgz",
		"koalagate_0.9.9.cdx.json", "koalagate_0.9.9_amd64.deb", "koalagate_0.9.9_arm64.deb",
		"koalagate_0.9.9_darwin_amd64.tar.gz", "koalagate_0.9.9_darwin_arm64.tar.gz", "koalagate_0.9.9_image.tar",
		"koalagate_0.9.9_linux_amd64.tar.gz", "koalagate_0.9.9_linux_arm64.tar.gz", "release.pem",
	}
	var names []string
	entries, err := os.ReadDir(first)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if !slices.Equal(names, want) {
		t.Fatalf("the release has %q; want %q", names, want)
	}
	testSignature(t, first)
	testArchives(t, first)
	testPackages(t, first)
	testLayout(t, filepath.Join(first, "koalagate_0.9.9_image.tar"))
	testModules(t, first)
	chart := filepath.Join(first, "koalagate-0.9.9.tgz")
	run(t, nil, "helm", "lint", chart)
	if about := run(t, nil, "helm", "show", "chart", chart); !strings.Contains(about, "\nversion: 0.9.9\n") || !strings.Contains(about, "appVersion: 0.9.9\n") {
		t.Errorf("the chart describes itself as\n%s", about)
	}
}

// testSignature verifies a release by the commands of the page for users, which fail if a file
// has changed.
func testSignature(t *testing.T, folder string) {
	t.Helper()
	page := read(t, "docs/install/verify.md")
	blocks := regexp.MustCompile("(?s)```sh untested: needs a release\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) != 2 {
		t.Fatalf("docs/install/verify.md has %d blocks of commands; want two: one runs openssl and sha256sum, the other cosign", len(blocks))
	}
	verify := func(commands string) (string, error) {
		c := exec.CommandContext(t.Context(), "bash", "-euc", strings.ReplaceAll(commands, "0.1.0", "0.9.9"))
		c.Dir = folder
		out, err := c.CombinedOutput()
		return string(out), err
	}
	changes := [][]string{{"koalagate_0.9.9_amd64.deb", "checksums.txt"}, {"checksums.txt"}}
	for i, block := range blocks {
		if out, err := verify(block[1]); err != nil {
			t.Errorf("the release is not valid: %v\n%s", err, out)
		}
		for _, name := range changes[i] {
			path := filepath.Join(folder, name)
			whole := read(t, path)
			write(t, path, whole+" ")
			if out, err := verify(block[1]); err == nil {
				t.Errorf("a release with a changed %s is valid:\n%s", name, out)
			}
			write(t, path, whole)
		}
	}
}

func testArchives(t *testing.T, folder string) {
	t.Helper()
	for _, platform := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"} {
		archive := "koalagate_0.9.9_" + platform
		contents := run(t, nil, "tar", "-tzf", filepath.Join(folder, archive+".tar.gz"))
		for _, name := range []string{"koalagate", "koalagate.example.yaml", "examples/gateway.conf", "examples/clients/client.py", "envoy/envoy.yaml", "deploy/traefik/traefik.yaml", "LICENSE", "NOTICE"} {
			if !strings.Contains(contents, archive+"/"+name+"\n") {
				t.Errorf("%s has no %s", archive, name)
			}
		}
		unpacked := t.TempDir()
		run(t, nil, "tar", "-xzf", filepath.Join(folder, archive+".tar.gz"), "-C", unpacked)
		goos, goarch, _ := strings.Cut(platform, "_")
		about := run(t, nil, "go", "version", "-m", filepath.Join(unpacked, archive, "koalagate"))
		if !strings.Contains(about, "GOOS="+goos+"\n") || !strings.Contains(about, "GOARCH="+goarch+"\n") {
			t.Errorf("the program of %s is\n%s", platform, about)
		}
	}
}

func testPackages(t *testing.T, folder string) {
	t.Helper()
	for goarch, arch := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		deb := filepath.Join(folder, "koalagate_0.9.9_"+goarch+".deb")
		if fields := run(t, nil, "dpkg-deb", "--field", deb, "Version", "Architecture"); fields != "Version: 0.9.9\nArchitecture: "+goarch+"\n" {
			t.Errorf("the package for Debian has the fields %s", fields)
		}
		rpm := filepath.Join(folder, "koalagate-0.9.9-1."+arch+".rpm")
		if fields := run(t, nil, "rpm", "--query", "--package", "--queryformat", "%{NAME} %{VERSION} %{RELEASE} %{ARCH} %{BUILDHOST}\n", rpm); fields != "koalagate 0.9.9 1 "+arch+" koalagate\n" {
			t.Errorf("the package for rpm has the fields %s", fields)
		}
		contents := run(t, nil, "rpm", "--query", "--list", "--package", rpm)
		for _, name := range []string{"/usr/bin/koalagate", "/usr/lib/systemd/system/koalagate.service", "/etc/koalagate/koalagate.yaml", "/usr/share/man/man1/koalagate.1.gz"} {
			if !strings.Contains(contents, name+"\n") {
				t.Errorf("%s has no %s", rpm, name)
			}
		}
		if kept := run(t, nil, "rpm", "--query", "--configfiles", "--package", rpm); !strings.Contains(kept, "/etc/koalagate/koalagate.yaml\n") {
			t.Errorf("an upgrade would replace the settings: %s", kept)
		}
		scripts := run(t, nil, "rpm", "--query", "--scripts", "--package", rpm)
		for _, want := range []string{"systemd-sysusers koalagate.conf", "try-restart koalagate.service", "disable --now koalagate.service"} {
			if !strings.Contains(scripts, want) {
				t.Errorf("the scripts of %s do not run %s", rpm, want)
			}
		}
	}
}

// blob describes a file of an OCI layout.
type blob struct {
	MediaType string
	Digest    string
	Size      int64
	Platform  struct{ Architecture, OS string }
}

// testLayout checks the image: each blob has its digest, the configuration is the Dockerfile's, and
// the layer has the program for the architecture and the folder of the image's user.
func testLayout(t *testing.T, file string) {
	t.Helper()
	folder := t.TempDir()
	run(t, nil, "tar", "-xf", file, "-C", folder)
	open := func(b blob, v any) string {
		t.Helper()
		path := filepath.Join(folder, "blobs", strings.Replace(b.Digest, ":", "/", 1))
		if sum, _, _ := strings.Cut(run(t, nil, "sha256sum", path), " "); "sha256:"+sum != b.Digest {
			t.Errorf("%s has the digest %s", path, sum)
		}
		if about, err := os.Stat(path); err != nil || about.Size() != b.Size {
			t.Errorf("%s: %v, want %d bytes", path, err, b.Size)
		}
		if v != nil {
			if err := json.Unmarshal([]byte(read(t, path)), v); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
		return path
	}
	var top, index struct{ Manifests []blob }
	if err := json.Unmarshal([]byte(read(t, filepath.Join(folder, "index.json"))), &top); err != nil || len(top.Manifests) != 1 {
		t.Fatalf("index.json: %v, %v", top, err)
	}
	open(top.Manifests[0], &index)
	wanted := readImage(t)
	var architectures []string
	for _, m := range index.Manifests {
		architectures = append(architectures, m.Platform.Architecture)
		var manifest struct {
			Config blob
			Layers []blob
		}
		open(m, &manifest)
		var config struct {
			Architecture, OS string
			Config           struct {
				User                 string
				Env, Entrypoint, Cmd []string
				Healthcheck          struct{ Test []string }
			}
			RootFS struct {
				DiffIDs []string `json:"diff_ids"`
			}
		}
		open(manifest.Config, &config)
		c := config.Config
		if config.Architecture != m.Platform.Architecture || config.OS != "linux" || c.User != wanted.user || !slices.Equal(c.Env, wanted.env) ||
			!slices.Equal(c.Entrypoint, wanted.entrypoint) || !slices.Equal(c.Cmd, wanted.cmd) || !slices.Equal(c.Healthcheck.Test, append([]string{"CMD"}, wanted.health...)) {
			t.Errorf("the configuration of %s is %+v; the Dockerfile wants %+v", m.Platform.Architecture, config, wanted)
		}
		layer := open(manifest.Layers[0], nil)
		if sum, _, _ := strings.Cut(run(t, nil, "sh", "-c", "gzip -dc <"+layer+" | sha256sum"), " "); !slices.Equal(config.RootFS.DiffIDs, []string{"sha256:" + sum}) {
			t.Errorf("the layer of %s has the digest %s, not %s", m.Platform.Architecture, sum, config.RootFS.DiffIDs)
		}
		contents := run(t, nil, "tar", "--numeric-owner", "-tvzf", layer)
		for _, want := range []string{`(?m)^-rwxr-xr-x 0/0 .* usr/bin/koalagate$`, `(?m)^drwxr-xr-x 65532/65532 .* var/lib/koalagate/$`} {
			if !regexp.MustCompile(want).MatchString(contents) {
				t.Errorf("the layer of %s has no %s:\n%s", m.Platform.Architecture, want, contents)
			}
		}
	}
	if !slices.Equal(architectures, []string{"amd64", "arm64"}) {
		t.Errorf("the image is for %s", architectures)
	}
}

// testModules compares the list of modules with what the go command finds in the programs.
func testModules(t *testing.T, folder string) {
	t.Helper()
	var document struct {
		BOMFormat string
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}
	file := filepath.Join(folder, "koalagate_0.9.9.cdx.json")
	if err := json.Unmarshal([]byte(read(t, file)), &document); err != nil {
		t.Fatal(err)
	}
	// syft reads the document, and finds the same modules.
	var found struct {
		Artifacts []struct{ Name, Version string }
	}
	if err := json.Unmarshal([]byte(run(t, []string{"SYFT_CHECK_FOR_APP_UPDATE=false"}, "syft", "convert", "--quiet", file, "--output", "syft-json")), &found); err != nil {
		t.Fatal(err)
	}
	bySyft := make(map[string]bool)
	for _, a := range found.Artifacts {
		bySyft[a.Name+" "+a.Version] = true
	}
	if c := document.Metadata.Component; document.BOMFormat != "CycloneDX" || c.Name != "koalagate" || c.Version != "v0.9.9" {
		t.Errorf("the list of modules is about %+v", document)
	}
	listed := make(map[string]bool)
	for _, c := range document.Components {
		listed[c.Name+" "+c.Version] = true
		if !bySyft[c.Name+" "+c.Version] {
			t.Errorf("syft does not find %s %s", c.Name, c.Version)
		}
	}
	unpacked := t.TempDir()
	run(t, nil, "tar", "-xzf", filepath.Join(folder, "koalagate_0.9.9_linux_amd64.tar.gz"), "-C", unpacked)
	about := run(t, nil, "go", "version", "-m", filepath.Join(unpacked, "koalagate_0.9.9_linux_amd64", "koalagate"))
	modules := regexp.MustCompile(`(?m)^\tdep\t(\S+)\t(\S+)\t`).FindAllStringSubmatch(about, -1)
	for _, m := range modules {
		if !listed[m[1]+" "+m[2]] {
			t.Errorf("the list of modules lacks %s %s", m[1], m[2])
		}
	}
	if len(modules) < 20 {
		t.Errorf("the program has %d modules", len(modules))
	}
}
