package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/koalagate/koalagate/internal/config"
	"github.com/koalagate/koalagate/internal/service"
)

// settings are the flags of the commands that need a configuration.
type settings struct {
	file  string
	flags *pflag.FlagSet
}

// configFlag names the flag that is no key of the configuration.
const configFlag = "config"

// addSettings puts the flags on a command.
func addSettings(c *cobra.Command) *settings {
	s := &settings{flags: pflag.NewFlagSet("settings", pflag.ContinueOnError)}
	f, d := s.flags, config.Default()
	f.StringVar(&s.file, configFlag, "", "YAML `FILE` with any of the options; koalagate.example.yaml shows them all")
	f.StringArray("rules", nil, "rule `PATH`: a file, or a folder of *.conf; may be given several times")
	f.String("dict-root", d.DictRoot, "`DIR` that the paths of word lists start from (default: the rule file's folder)")
	f.String("state-dir", d.StateDir, "`DIR` of this instance's own to keep the last good rules in (default: none are kept)")
	f.String("grpc-addr", d.GRPCAddr, "`ADDRESS` for Envoy: host:port or unix:/path")
	f.String("grpc-tls-cert", d.GRPCTLSCert, "PEM `FILE` of the certificate for Envoy (default: no TLS)")
	f.String("grpc-tls-key", d.GRPCTLSKey, "PEM `FILE` of the certificate's key")
	f.String("grpc-tls-client-ca", d.GRPCTLSClientCA, "PEM `FILE` of the authorities whose certificates Envoy must bring")
	f.String("http-addr", d.HTTPAddr, "`ADDRESS` for HTTP gateways and Koala's API")
	f.String("admin-addr", d.AdminAddr, "`ADDRESS` for health, readiness and metrics")
	f.String("redis", "", "`URL` of the Redis that instances share (default: count in process)")
	f.String("redis-prefix", d.RedisPrefix, "`PREFIX` of every key in Redis")
	f.String("timezone", d.Timezone, "`ZONE` of the days of rule sets that state none")
	f.String("log-format", d.LogFormat, "json or text")
	f.String("log-level", d.LogLevel, "debug, info, warn or error")
	c.Flags().AddFlagSet(f)
	return s
}

// load reads the configuration: flags over the environment over the file.
func (s *settings) load(environ []string) (*config.Loaded, error) {
	in := config.Input{File: s.file, Environ: environ, Flags: make(map[string]any)}
	if in.File == "" {
		in.File = variable(environ, "KOALAGATE_CONFIG")
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

// unknownFlag words the complaint about a flag that a command does not have.
// Most options have no flag, and are told of as what they are.
func unknownFlag(c *cobra.Command, name string) error {
	var flags []string
	c.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
	if c.Flags().Lookup(configFlag) == nil {
		return fmt.Errorf("there is no flag --%s%s", name, meant("--", config.Nearest(name, flags)))
	}
	keys := config.Keys()
	if key := strings.ReplaceAll(name, "-", "_"); slices.Contains(keys, key) {
		return fmt.Errorf("there is no flag --%s; set %s, or %s in the file of --config", name, config.EnvName(key), key)
	}
	if near := config.Nearest(name, flags); near != "" {
		return fmt.Errorf("there is no flag --%s%s", name, meant("--", near))
	}
	near := config.Nearest(strings.ReplaceAll(name, "-", "_"), keys)
	return fmt.Errorf("there is no flag --%s%s", name, meant("the option ", near))
}

// meant asks whether a word was meant, if there is one.
func meant(kind, word string) string {
	if word == "" {
		return ""
	}
	return "; did you mean " + kind + word + "?"
}

// keyOf is the key that a flag sets.
func keyOf(f *pflag.Flag) string { return strings.ReplaceAll(f.Name, "-", "_") }

// variable is the value of an environment variable, "" without one.
func variable(environ []string, name string) string {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
