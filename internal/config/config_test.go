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

func TestIrregularFilesAreRejected(t *testing.T) {
	for _, path := range []string{t.TempDir(), "/dev/zero"} {
		if _, err := config.Load(config.Input{File: path}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestUnusualValuesAreAccepted(t *testing.T) {
	for _, text := range []string{
		"koala_hosts: [a, A-1.example, 10.0.0.1]", "koala_hosts: []", "trusted_proxies: [\"::1\", \"fe80::/10\"]", "koala_token: \"pass word\"",
		"redis_prefix: " + strings.Repeat("x", 64), "drain_wait: 0s", "rescue_share: 1", "unix_socket_mode: \"0\"", "report_addr: \"\"", "max_waiting: 1",
	} {
		if _, err := config.Load(config.Input{File: write(t, "k.yaml", text+"\n")}); err != nil {
			t.Errorf("%s: %v", text, err)
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
		"KOALAGATE_RULES=redis: KOALAGATE_REDIS=redis://127.0.0.1 KOALAGATE_PUBLISH_PUBLIC_KEY=k": "set state_dir to a folder",
		"KOALAGATE_FOLLOW_MODES=true": "set redis too",
		"KOALAGATE_FOLLOW_MODES=true KOALAGATE_REDIS=redis://127.0.0.1 KOALAGATE_PUBLISH_PUBLIC_KEY=k KOALAGATE_STATE_DIR=/tmp": "modes have no signatures",
	} {
		if _, err := config.Load(config.Input{Environ: strings.Fields(environ)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", environ, err, want)
		}
	}
	loaded := load(t, config.Input{Environ: []string{"KOALAGATE_RULES=redis:", "KOALAGATE_REDIS=redis://127.0.0.1"}})
	if !loaded.IsPublished() {
		t.Error("redis: is not taken for published rules")
	}
}

// Modes in Redis are followed with published rules or by the setting, never with a key.
func TestModesInRedis(t *testing.T) {
	for environ, want := range map[string]bool{
		"":                                  false,
		"KOALAGATE_REDIS=redis://127.0.0.1": false,
		"KOALAGATE_REDIS=redis://127.0.0.1 KOALAGATE_FOLLOW_MODES=true":                                                    true,
		"KOALAGATE_REDIS=redis://127.0.0.1 KOALAGATE_RULES=redis:":                                                         true,
		"KOALAGATE_REDIS=redis://127.0.0.1 KOALAGATE_RULES=redis: KOALAGATE_PUBLISH_PUBLIC_KEY=k KOALAGATE_STATE_DIR=/tmp": false,
	} {
		if loaded := load(t, config.Input{Environ: strings.Fields(environ)}); loaded.FollowsModes() != want {
			t.Errorf("%s: %v", environ, !want)
		}
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
	return slices.Contains([]string{"rules", "trial", "dict_root", "state_dir", "redis_prefix", "accel_targets", "admin_hosts", "koala_hosts", "publish_public_key", "rules_may_use", "decision_log", "decision_log_params"}, key)
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
