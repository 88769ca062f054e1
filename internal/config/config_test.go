package config_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/koalagate/koalagate/internal/config"
	"go.yaml.in/yaml/v3"
)

const example = "../../koalagate.example.yaml"

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t testing.TB, in config.Input) *config.Loaded {
	t.Helper()
	l, err := config.Load(in)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLoadWithoutInputReturnsDefault(t *testing.T) {
	if diff := cmp.Diff(config.Default(), load(t, config.Input{}).Config); diff != "" {
		t.Errorf("want the default, got (-want +got)\n%s", diff)
	}
}

func TestExampleListsEveryKeyWithItsDefault(t *testing.T) {
	l := load(t, config.Input{File: example})
	if diff := cmp.Diff(config.Default(), l.Config); diff != "" {
		t.Errorf("the example differs from the default (-want +got)\n%s", diff)
	}
	for _, key := range config.Keys() {
		if !strings.HasPrefix(l.Sources[key], "file ") {
			t.Errorf("the example lacks %s", key)
		}
	}
}

func TestEveryOptionHasAComment(t *testing.T) {
	var lines []string
	for _, file := range []string{"config.go", "grpc.go", "store.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.Split(string(text), "\n")...)
	}
	for _, key := range config.Keys() {
		at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, `koanf:"`+key+`"`) })
		if at < 0 {
			t.Errorf("%s is in none of the files of this test", key)
			continue
		}
		if name := strings.Fields(lines[at])[0]; !strings.HasPrefix(strings.TrimSpace(lines[at-1]), "//") {
			t.Errorf("%s (%s) has no comment", name, key)
		}
	}
}

func TestPrecedenceOfSources(t *testing.T) {
	file := write(t, "k.yaml", "redis_prefix: file\ntimezone: UTC\ngrpc_addr: 127.0.0.1:1\n")
	l := load(t, config.Input{
		File:    file,
		Environ: []string{"HOME=/", "KOALAGATE_REDIS_PREFIX=environment", "KOALAGATE_GRPC_ADDR=127.0.0.1:2", "KOALAGATE_CONFIG=x"},
		Flags:   map[string]any{"grpc_addr": "127.0.0.1:3"},
	})
	for _, c := range []struct{ key, value, want, source string }{
		{"http_addr", l.HTTPAddr, "127.0.0.1:9981", "default"},
		{"timezone", l.Timezone, "UTC", "file " + file + ":2"},
		{"redis_prefix", l.RedisPrefix, "environment", "environment KOALAGATE_REDIS_PREFIX"},
		{"grpc_addr", l.GRPCAddr, "127.0.0.1:3", "flag --grpc-addr"},
	} {
		if c.value != c.want || l.Sources[c.key] != c.source {
			t.Errorf("%s is %q from %q; want %q from %q", c.key, c.value, l.Sources[c.key], c.want, c.source)
		}
	}
}

func TestEnvironmentSetsEveryType(t *testing.T) {
	l := load(t, config.Input{Environ: []string{
		"KOALAGATE_RULES=a.conf, b.conf,", "KOALAGATE_REQUIRE_END=true", "KOALAGATE_TRUSTED_HOPS=2",
		"KOALAGATE_GRPC_MAX_STREAMS=7", "KOALAGATE_DRAIN_WAIT=250ms", "KOALAGATE_TRUSTED_PROXIES=10.0.0.1",
	}})
	got := fmt.Sprint(l.Rules, l.RequireEnd, l.TrustedHops, l.GRPCMaxStreams, l.DrainWait, l.TrustedProxies)
	if want := "[a.conf b.conf] true 2 7 250ms [10.0.0.1]"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

func TestErrorsNameKeySourceAndRemedy(t *testing.T) {
	for _, c := range []struct{ name, file, env, want string }{
		{"a typo in a key", "redis_prefx: x\n", "", `:1: unknown key "redis_prefx"; did you mean "redis_prefix"?`},
		{"an unlikely key", "colour: x\n", "", `:1: unknown key "colour"`},
		{"a typo in a variable", "", "KOALAGATE_REDDIS=x", `unknown key "KOALAGATE_REDDIS"; did you mean "KOALAGATE_REDIS"?`},
		{"a key twice", "timezone: UTC\ntimezone: UTC\n", "", `:2: "timezone" is set twice`},
		{"a list instead of a mapping", "- a\n", "", `:1: want keys and values`},
		{"invalid YAML", "a: [\n", "", "yaml: line 1"},
		{"an indented key", "rules: a\n timezone: UTC\n", "", "every key begins in the first column"},
		{"a tab", "a:\n\tb: 1\n", "", "YAML does not accept tabs there"},
		{"not UTF-8", "# \xd6\xd0\n", "", "save it as UTF-8"},
		{"a string for a number", "rescue_share: 25%\n", "", "got a string; want a number"},
		{"a mapping for a list", "modes: {ratelimit: observe}\n", "", "got a mapping; want a list of door=mode: one of extauthz"},
		{"a port for an address", "grpc_addr: 9191\n", "", "got an integer; want host:port, like 127.0.0.1:9191"},
		{"a mode without quotes", "unix_socket_mode: 660\n", "", `want octal digits in quotes, like "0660"`},
		{"a number for a list of paths", "rules: 7\n", "", "got an integer; want a list"},
		{"a number without unit", "drain_wait: 5\n", "", "drain_wait (file"},
		{"a number without unit, its message", "drain_wait: 5\n", "", "missing unit; want a duration with a unit, like 250ms or 5s"},
		{"an invalid duration", "", "KOALAGATE_DRAIN_WAIT=soon", "drain_wait (environment KOALAGATE_DRAIN_WAIT)"},
		{"a fraction", "trusted_hops: 1.5\n", "", "trusted_hops (file"},
		{"a word for a number", "", "KOALAGATE_TRUSTED_HOPS=two", `KOALAGATE_TRUSTED_HOPS: "two" is not an integer`},
		{"a word for a boolean", "", "KOALAGATE_REQUIRE_END=maybe", `"maybe" is not true or false`},
		{"a mapping for a string", "timezone: {a: b}\n", "", "timezone (file"},
		{"an address without port", "grpc_addr: localhost\n", "", `invalid value "localhost"; want host:port`},
		{"a port out of bounds", "grpc_addr: localhost:70000\n", "", "want host:port"},
		{"a relative socket", "grpc_addr: unix:x\n", "", "want host:port, like 127.0.0.1:9191, or unix:/path"},
		{"a zone that does not exist", "timezone: Asia/Xanghai\n", "", "want the IANA name"},
		{"below a bound", "redis_budget: 1us\n", "", "redis_budget (file"},
		{"above a bound", "redis_budget: 1h\n", "", "want at most 10s"},
		{"an unknown choice", "headers: all\n", "", "want one of draft10, legacy, both, none"},
		{"an invalid block", "trusted_proxies: [10.0.0.0/40]\n", "", `trusted_proxies (file`},
		{"a long prefix", "redis_prefix: " + strings.Repeat("x", 65) + "\n", "", "want at most 64 characters"},
		{"a prefix with a brace", "redis_prefix: a{b\n", "", "want no spaces and no braces"},
		{"a share of zero", "rescue_share: 0\n", "", "want a number above 0 and up to 1"},
		{"a share above one", "", "KOALAGATE_RESCUE_SHARE=1.5", "want a number above 0 and up to 1"},
		{"a word for a share", "", "KOALAGATE_RESCUE_SHARE=half", `"half" is not a number`},
		{"an unknown policy", "fail_policies: [extauthz=open]\n", "", "and rescue, allow, deny or gateway"},
		{"a policy of an unknown door", "fail_policies: [nginx=deny]\n", "", "door=policy: one of extauthz"},
		{"two policies of a door", "fail_policies: [koala=deny, accel=deny, koala=allow]\n", "", `"koala=deny" and "koala=allow" are for the same door`},
		{"two modes of a door", "modes: [koala=enforce, koala=observe]\n", "", `"koala=enforce" and "koala=observe" are for the same door`},
		{"an invalid Redis URL", "redis: localhost:6379\n", "", "invalid URL scheme; want redis://host:port/db"},
		{"drain_wait above drain_timeout", "drain_wait: 9s\n", "", "want at most drain_timeout"},
		{"an empty list of accel targets", "accel_targets: []\n", "", "want at least 1 entries"},
		{"a certificate without a key", "grpc_tls_cert: tls.crt\n", "", `grpc_tls_key (default): invalid value ""; want a file: grpc_tls_cert and`},
		{"a key without a certificate", "grpc_tls_key: tls.key\n", "", "grpc_tls_cert (default)"},
		{"authorities without a certificate", "grpc_tls_client_ca: ca.crt\n", "", "grpc_tls_cert (default)"},
		{"a certificate of HTTP without a key", "http_tls_cert: tls.crt\n", "", `http_tls_key (default): invalid value ""; want a file: http_tls_cert and http_tls_key require each other, and http_tls_client_ca`},
		{"admin authorities without a certificate", "admin_tls_client_ca: ca.crt\n", "", "admin_tls_cert (default)"},
		{"invalid permissions", "unix_socket_mode: \"0999\"\n", "", `unix_socket_mode (file`},
		{"permissions out of range", "unix_socket_mode: \"1777\"\n", "", `want octal digits in quotes, like "0660"`},
		{"a missing file of a secret", "koala_token_file: /does/not/exist\n", "", "koala_token_file (file"},
		{"a password without Redis", "redis_password_file: " + example + "\n", "", "set redis too"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := config.Input{}
			if c.file != "" {
				in.File = write(t, "k.yaml", c.file)
			}
			if c.env != "" {
				in.Environ = []string{c.env}
			}
			if _, err := config.Load(in); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant an error containing %s", err, c.want)
			}
		})
	}
}

func TestLoadReportsAllErrorsAtOnce(t *testing.T) {
	_, err := config.Load(config.Input{File: write(t, "k.yaml", "one: 1\ntwo: 2\n"), Environ: []string{"KOALAGATE_THREE=3"}})
	for _, key := range []string{"one", "two", "KOALAGATE_THREE"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%v does not name %s", err, key)
		}
	}
}

func TestIrregularFilesAreRejected(t *testing.T) {
	for _, path := range []string{t.TempDir(), "/dev/zero"} {
		if _, err := config.Load(config.Input{File: path}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestServiceLinksAreIgnored(t *testing.T) {
	load(t, config.Input{Environ: []string{
		"KOALAGATE_SERVICE_HOST=10.0.0.1", "KOALAGATE_SERVICE_PORT=9191", "KOALAGATE_SERVICE_PORT_GRPC=9191",
		"KOALAGATE_PORT=tcp://10.0.0.1:9191", "KOALAGATE_PORT_9191_TCP_ADDR=10.0.0.1", "KOALAGATE_GRPC_PORT_9191_TCP=tcp://10.0.0.1:9191",
	}})
}

func TestSecretsAreReadFromFilesAndMasked(t *testing.T) {
	l := load(t, config.Input{
		File: write(t, "k.yaml", fmt.Sprintf("redis: redis-sentinel://ann:old-secret@one:1,two/m/1\nredis_sentinel_password_file: %s\nkoala_token_file: %s\n",
			write(t, "password", "new/secret\n"), write(t, "token", "token-secret\n"))),
		Environ: []string{"KOALAGATE_ADMIN_TOKEN=admin-secret"},
	})
	if l.Redis.Reveal() != "redis-sentinel://ann:old-secret@one:1,two/m/1" || l.RedisSentinelPassword.Reveal() != "new/secret" || l.KoalaToken.Reveal() != "token-secret" || l.AdminToken.Reveal() != "admin-secret" {
		t.Errorf("got %s %s %s", l.Redis.Reveal(), l.KoalaToken.Reveal(), l.AdminToken.Reveal())
	}
	var dump bytes.Buffer
	if err := l.Dump(&dump); err != nil {
		t.Fatal(err)
	}
	if want := "redis-sentinel://ann:xxxxx@one:1,two/m/1"; !strings.Contains(dump.String(), want) {
		t.Errorf("the dump has no %s", want)
	}
	for _, form := range []string{dump.String(), fmt.Sprintf("%v", l.Config), fmt.Sprintf("%#v", l.Config), fmt.Sprintf("%+v", *l)} {
		if strings.Contains(form, "secret") || !strings.Contains(form, "xxxxx") {
			t.Errorf("the secret is visible in %s", form)
		}
	}
}

func TestSecretSetTwiceIsAnError(t *testing.T) {
	_, err := config.Load(config.Input{
		File:    write(t, "k.yaml", "koala_token_file: "+write(t, "token", "from-the-file")+"\n"),
		Environ: []string{"KOALAGATE_KOALA_TOKEN=from-the-environment"},
	})
	if err == nil || !strings.Contains(err.Error(), "koala_token is also set") || strings.Contains(err.Error(), "from-the") {
		t.Errorf("got %v", err)
	}
}

func TestDumpCanBeLoaded(t *testing.T) {
	before := load(t, config.Input{Environ: []string{"KOALAGATE_RULES=a b,c", "KOALAGATE_DICT_ROOT=#odd: \"path\""}})
	var dump bytes.Buffer
	if err := before.Dump(&dump); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(dump.String(), "\n"); n != len(config.Keys()) {
		t.Errorf("%d lines for %d keys:\n%s", n, len(config.Keys()), dump.String())
	}
	after := load(t, config.Input{File: write(t, "k.yaml", dump.String())})
	if diff := cmp.Diff(before.Config, after.Config); diff != "" {
		t.Errorf("reading the dump gives (-want +got)\n%s", diff)
	}
	if !strings.Contains(dump.String(), "# environment KOALAGATE_RULES") {
		t.Errorf("missing source:\n%s", dump.String())
	}
}

// Published rules need a Redis, and are not mixed with files.
func TestPublishedRules(t *testing.T) {
	for environ, want := range map[string]string{
		"KOALAGATE_RULES=redis:":        "set redis too",
		"KOALAGATE_RULES=redis:,x.conf": "want one of them",
		"KOALAGATE_TRIAL=redis:":        "want rule files",
	} {
		if _, err := config.Load(config.Input{Environ: []string{environ}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", environ, err, want)
		}
	}
	loaded := load(t, config.Input{Environ: []string{"KOALAGATE_RULES=redis:", "KOALAGATE_REDIS=redis://127.0.0.1"}})
	if !loaded.IsPublished() {
		t.Error("redis: is not taken for published rules")
	}
}

func TestNamesOfFlagsAndVariables(t *testing.T) {
	if got := config.FlagName("grpc_addr") + " " + config.EnvName("grpc_addr"); got != "--grpc-addr KOALAGATE_GRPC_ADDR" {
		t.Error(got)
	}
	// A key that matches a service link would be ignored in the environment.
	for _, key := range config.Keys() {
		value := "x"
		if _, err := config.Load(config.Input{Environ: []string{config.EnvName(key) + "=" + value}}); err == nil && !acceptsAnyText(key) {
			t.Errorf("%s=x causes no error; is it read at all?", config.EnvName(key))
		}
	}
}

// acceptsAnyText reports whether "x" is a valid value of key.
func acceptsAnyText(key string) bool {
	return slices.Contains([]string{"rules", "trial", "dict_root", "state_dir", "redis_prefix", "accel_targets", "admin_hosts", "koala_hosts", "publish_public_key", "decision_log", "decision_log_params"}, key)
}

func FuzzFile(f *testing.F) {
	text, err := os.ReadFile(example)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add("a: &x [*x]")
	f.Add("rules: [[[]]]\n? {a: b}\n: c")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := config.Load(config.Input{File: write(t, "k.yaml", text)})
		if err == nil && (l.DrainTimeout < time.Second || l.GRPCAddr == "") {
			t.Errorf("accepted %+v", l.Config)
		}
		var v any
		if err == nil && yaml.Unmarshal([]byte(text), &v) != nil {
			t.Errorf("accepted invalid YAML: %q", text)
		}
	})
}
