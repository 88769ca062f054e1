package config_test

import (
	"strings"
	"testing"

	"github.com/koalagate/koalagate/internal/config"
)

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
		{"two listeners of one address", "http_addr: :9191\nadmin_addr: :9191\n", "", `:2): ":9191" is the address of http_addr, too; use another one`},
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
		{"a prefix with a letter outside ASCII", "redis_prefix: ä\n", "", "want printable ASCII only"},
		{"no prefix", "redis_prefix: \"\"\n", "", "want at least 1 character"},
		{"an empty path", "rules: [a.conf, \"\"]\n", "", `invalid value ""; want a value`},
		{"a short secret", "koala_token: letters\n", "", "koala_token (file"},
		{"a short secret, its message", "koala_token: letters\n", "", "invalid secret; want at least 8 characters"},
		{"a zone that differs by machine", "timezone: local\n", "", "want the IANA name"},
		{"a host with a port", "koala_hosts: [\"a.example:80\"]\n", "", `invalid value "a.example:80"; want a host name`},
		{"a host that begins with a hyphen", "koala_hosts: [-a.example]\n", "", "want a host name"},
		{"a host with a label that ends with a hyphen", "admin_hosts: [good, a-.example]\n", "", `invalid value "a-.example"; want a host name`},
		{"a host with an empty label", "admin_hosts: [a..example]\n", "", "want a host name"},
		{"a host with a long label", "admin_hosts: [" + strings.Repeat("a", 64) + "]\n", "", "want a host name"},
		{"the second proxy", "trusted_proxies: [10.0.0.1, 10.0.0.0/8, ten]\n", "", `invalid value "ten"; want an address or a block`},
		{"a size below another", "grpc_max_message: 2097152\ngrpc_max_unfinished: 1048576\n", "", "invalid value 1048576; want at least grpc_max_message"},
		{"a share that is no number", "rescue_share: .nan\n", "", "want a number above 0 and up to 1"},
		{"a share of zero", "rescue_share: 0\n", "", "want a number above 0 and up to 1"},
		{"a share above one", "", "KOALAGATE_RESCUE_SHARE=1.5", "want a number above 0 and up to 1"},
		{"a word for a share", "", "KOALAGATE_RESCUE_SHARE=half", `"half" is not a number`},
		{"an unknown policy", "fail_policies: [extauthz=open]\n", "", "and rescue, allow, deny or gateway"},
		{"a policy of an unknown door", "fail_policies: [nginx=deny]\n", "", "door=policy: one of extauthz"},
		{"two policies of a door", "fail_policies: [koala=deny, accel=deny, koala=allow]\n", "", `"koala=deny" and "koala=allow" are for the same door`},
		{"two modes of a door", "modes: [koala=enforce, koala=observe]\n", "", `"koala=enforce" and "koala=observe" are for the same door`},
		{"an invalid Redis URL", "redis: localhost:6379\n", "", "invalid URL scheme; want redis://host:port/db"},
		{"drain_wait above drain_timeout", "drain_wait: 9s\n", "", "want at most drain_timeout"},
		{"an empty list of accel targets", "accel_targets: []\n", "", "want at least 1 entry"},
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
