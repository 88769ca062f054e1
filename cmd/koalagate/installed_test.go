package main

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Commands of an operator ask the service that a package has installed: at its address, with its
// token, whatever else is secret in its settings.
func TestCommandsFindTheInstalledService(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+" "+r.Header.Get("Authorization"))
		_, _ = w.Write([]byte("[]"))
	}))
	defer server.Close()
	address := server.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	state := t.TempDir()
	write := func(path, text string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write(filepath.Join(state, "admin-127.0.0.1_"+port+".token"), "made\n")
	token := write(filepath.Join(t.TempDir(), "token"), "configured\n")
	settings := "admin_addr: " + address + "\nstate_dir: " + state + "\n"
	const elsewhere = "admin_addr: 127.0.0.1:1\n"
	for _, c := range []struct {
		name, settings, unit string
		environ              []string
		want                 string // of the header
	}{
		{"the token that the instance made", settings, "", nil, "Bearer made"},
		{"a configured token", settings + "admin_token_file: " + token + "\n", "", nil, "Bearer configured"},
		{"a secret of Redis that only the service may read", settings + "redis: redis://r\nredis_password_file: /nonexistent/password\n", "", nil, "Bearer made"},
		{"the environment of the unit", elsewhere, "# settings\nKOALAGATE_ADMIN_ADDR=127.0.0.1:2\n KOALAGATE_ADMIN_ADDR=\"" + address + "\"\nKOALAGATE_STATE_DIR='" + state + "'\nPATH=/bin\n", nil, "Bearer made"},
		{"the environment of the command", elsewhere, "KOALAGATE_ADMIN_ADDR=127.0.0.1:2\n", []string{"KOALAGATE_ADMIN_ADDR=" + address}, ""},
	} {
		etc := t.TempDir()
		write(filepath.Join(etc, "koalagate", "koalagate.yaml"), c.settings)
		if c.unit != "" {
			write(filepath.Join(etc, "default", "koalagate"), c.unit)
		}
		asked = nil
		var errs bytes.Buffer
		p := &program{args: []string{"exception", "list"}, environ: append(c.environ, "TMPDIR="+t.TempDir()), stdout: new(bytes.Buffer), stderr: &errs, installed: installed(etc)}
		if code := p.run(); code != exitOK || len(asked) != 1 || asked[0] != "/api/v1/exceptions "+c.want {
			t.Errorf("%s: exit code %d, %s; asked %q; want the header %q", c.name, code, errs.String(), asked, c.want)
		}
	}
}

// Without permission to read the settings, a command ends with an error that says what to do. It
// does not ask another instance instead.
func TestUnreadableSettingsOfTheInstalledService(t *testing.T) {
	etc := t.TempDir()
	for _, c := range []struct{ path, want string }{
		{"koalagate/koalagate.yaml", "cannot read the settings"},
		{"default/koalagate", "cannot read the environment of the service"},
	} {
		if err := os.MkdirAll(filepath.Join(etc, c.path), 0o700); err != nil { // a folder cannot be read, not even by root
			t.Fatal(err)
		}
		var errs bytes.Buffer
		p := &program{args: []string{"instances"}, stdout: new(bytes.Buffer), stderr: &errs, installed: installed(etc)}
		if code := p.run(); code != exitFailed || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: exit code %d, %s; want %s", c.path, code, errs.String(), c.want)
		}
	}
}
