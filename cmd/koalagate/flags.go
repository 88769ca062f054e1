package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/env"
	"github.com/koalagate/koalagate/internal/service"
	"github.com/koalagate/koalagate/internal/spelling"
)

// settings holds the flags of commands that need a configuration.
type settings struct {
	file  string
	flags *pflag.FlagSet
}

// configFlag is the only flag that is not a key of the configuration.
const configFlag = "config"

// addSettings adds the flags to a command.
func addSettings(c *cobra.Command) *settings {
	s := &settings{flags: pflag.NewFlagSet("settings", pflag.ContinueOnError)}
	f, d := s.flags, config.Default()
	f.StringVar(&s.file, configFlag, "", "YAML `FILE` with settings; koalagate.example.yaml lists all settings")
	f.StringArray("rules", nil, "`PATH` of a rule file, or of a folder with *.conf files; repeatable")
	f.StringArray("trial", nil, "`PATH` of a rule file to compare with the rules, without effect, or of a folder; repeatable")
	f.String("dict-root", d.DictRoot, "base `DIR` for the paths of word lists (default: the folder of the rule file)")
	f.String("state-dir", d.StateDir, "`DIR` in which this instance keeps the last valid rules (default: none are kept)")
	f.String("grpc-addr", d.GRPCAddr, "listen `ADDRESS` for Envoy: host:port or unix:/path")
	f.String("grpc-tls-cert", d.GRPCTLSCert, "PEM `FILE` of the certificate for Envoy (default: no TLS)")
	f.String("grpc-tls-key", d.GRPCTLSKey, "PEM `FILE` of the certificate's key")
	f.String("grpc-tls-client-ca", d.GRPCTLSClientCA, "PEM `FILE` of the authorities for client certificates, which Envoy must then present")
	f.String("http-addr", d.HTTPAddr, "listen `ADDRESS` for HTTP gateways and Koala's API")
	f.String("http-tls-cert", d.HTTPTLSCert, "PEM `FILE` of the certificate for HTTP gateways (default: no TLS)")
	f.String("http-tls-key", d.HTTPTLSKey, "PEM `FILE` of the certificate's key")
	f.String("http-tls-client-ca", d.HTTPTLSClientCA, "PEM `FILE` of the authorities for client certificates, which HTTP gateways must then present")
	f.String("admin-addr", d.AdminAddr, "listen `ADDRESS` for health, readiness and metrics")
	f.String("redis", "", "`URL` of the Redis that all instances share (default: count in process)")
	f.String("redis-prefix", d.RedisPrefix, "`PREFIX` of every key in Redis")
	f.String("timezone", d.Timezone, "time `ZONE` of rule sets that name none")
	f.String("log-format", d.LogFormat, "`FORMAT` of the log: json or text")
	f.String("log-level", d.LogLevel, "lowest `LEVEL` that is logged: debug, info, warn or error")
	c.Flags().AddFlagSet(f)
	return s
}

// load reads the configuration. Flags override the environment, which overrides
// the file.
func (s *settings) load(environ []string) (*config.Loaded, error) {
	in := config.Input{File: s.file, Environ: environ, Flags: make(map[string]any)}
	if in.File == "" {
		in.File = env.Value(environ, "KOALAGATE_CONFIG")
	}
	s.flags.VisitAll(func(f *pflag.Flag) {
		switch list, isList := f.Value.(pflag.SliceValue); {
		case !f.Changed || f.Name == configFlag:
		case isList:
			in.Flags[keyOf(f)] = list.GetSlice()
		default:
			in.Flags[keyOf(f)] = f.Value.String()
		}
	})
	loaded, err := config.Load(in)
	if err != nil {
		return nil, err
	}
	return loaded, service.CheckRedis(loaded)
}

// unknownFlag returns the error for a flag that a command does not have. Most
// settings have no flag, so the error names the alternatives for a setting.
func unknownFlag(c *cobra.Command, name string) error {
	var flags []string
	c.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
	if c.Flags().Lookup(configFlag) == nil {
		return fmt.Errorf("unknown flag --%s%s", name, suggestion("--", spelling.Suggest(name, flags)))
	}
	keys := config.Keys()
	if key := strings.ReplaceAll(name, "-", "_"); slices.Contains(keys, key) {
		return fmt.Errorf("unknown flag --%s; set %s, or %s in the --config file", name, config.EnvName(key), key)
	}
	if near := spelling.Suggest(name, flags); near != "" {
		return fmt.Errorf("unknown flag --%s%s", name, suggestion("--", near))
	}
	near := spelling.Suggest(strings.ReplaceAll(name, "-", "_"), keys)
	return fmt.Errorf("unknown flag --%s%s", name, suggestion("the setting ", near))
}

// suggestion returns a question for a similar word, "" without one.
func suggestion(kind, word string) string {
	if word == "" {
		return ""
	}
	return "; did you mean " + kind + word + "?"
}

// keyOf returns the key that a flag sets.
func keyOf(f *pflag.Flag) string { return strings.ReplaceAll(f.Name, "-", "_") }
