package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpguts"

	"github.com/koalagate/koalagate/internal/explain"
	"github.com/koalagate/koalagate/internal/mapping"
)

// The values of flags that describe a request, for all commands that take one. The
// errors of Set contain the expected values; usageError adds the flag and its value.
var (
	_ pflag.Value = (*choice)(nil)
	_ pflag.Value = headerFlag{}
	_ pflag.Value = (*entriesFlag)(nil)
	_ pflag.Value = metadataFlag{}
	_ pflag.Value = (*requestFlag)(nil)
	_ pflag.Value = (*addressFlag)(nil)
)

// choice is one of a few words.
type choice struct {
	value string
	among []string
}

// String returns the word.
func (c *choice) String() string { return c.value }

// Set accepts one of the words.
func (c *choice) Set(word string) error {
	if !slices.Contains(c.among, word) {
		return fmt.Errorf("want %s", strings.Join(c.among, ", "))
	}
	c.value = word
	return nil
}

// Type returns the type name in usage messages.
func (c *choice) Type() string { return "string" }

// completeValues lets shells complete the words of every choice, and the words of settings
// with a few words.
func completeValues(c *cobra.Command) {
	settings := map[string][]string{"log-format": {"json", "text"}, "log-level": {"debug", "info", "warn", "error"}}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		words := settings[f.Name]
		if of, ok := f.Value.(*choice); ok {
			words = of.among
		}
		if words != nil {
			// It fails for a flag that does not exist, or that already has completions.
			_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	for _, sub := range c.Commands() {
		completeValues(sub)
	}
}

// headerFlag collects headers from a repeatable flag.
type headerFlag struct{ http.Header }

// String returns "", the default of the flag.
func (headerFlag) String() string { return "" }

// Set adds a header from 'NAME: VALUE'.
func (h headerFlag) Set(text string) error {
	name, value, ok := strings.Cut(text, ":")
	if name = strings.TrimSpace(name); !ok || !httpguts.ValidHeaderFieldName(name) {
		return errors.New("want 'NAME: VALUE'")
	}
	h.Add(name, strings.TrimSpace(value))
	return nil
}

// Type returns the type name in usage messages.
func (headerFlag) Type() string { return "string" }

// entriesFlag collects KEY=VALUE entries from a repeatable flag, in order.
type entriesFlag []mapping.Entry

// String returns "", the default of the flag.
func (*entriesFlag) String() string { return "" }

// Set adds an entry from KEY=VALUE.
func (e *entriesFlag) Set(text string) error {
	entry, err := parseEntry(text)
	if err != nil {
		return errors.New("want KEY=VALUE")
	}
	*e = append(*e, entry)
	return nil
}

// Type returns the type name in usage messages.
func (*entriesFlag) Type() string { return "string" }

// parseEntry parses NAME=VALUE.
func parseEntry(text string) (mapping.Entry, error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return mapping.Entry{}, fmt.Errorf("invalid parameter %q; want NAME=VALUE", text)
	}
	return mapping.Entry{Key: name, Value: value}, nil
}

// parseEntries parses the NAME=VALUE arguments of a command.
func parseEntries(args []string) ([]mapping.Entry, error) {
	var list []mapping.Entry
	for _, arg := range args {
		entry, err := parseEntry(arg)
		if err != nil {
			return nil, err
		}
		list = append(list, entry)
	}
	return list, nil
}

// metadataFlag collects Envoy metadata from a repeatable flag.
type metadataFlag explain.Metadata

// String returns "", the default of the flag.
func (metadataFlag) String() string { return "" }

// Set adds a value from 'NAMESPACE PATH=VALUE'.
func (m metadataFlag) Set(text string) error {
	place, value, found := strings.Cut(text, "=")
	var key explain.MetadataKey
	if err := key.UnmarshalText([]byte(place)); err != nil || !found {
		return errors.New("want 'NAMESPACE PATH=VALUE', with NAMESPACE and PATH as in [params]")
	}
	if _, duplicate := m[key]; duplicate {
		return errors.New("the same NAMESPACE PATH was set before")
	}
	m[key] = value
	return nil
}

// Type returns the type name in usage messages.
func (metadataFlag) Type() string { return "string" }

// requestFlag is the request line of a client.
type requestFlag struct{ method, target string }

// String returns "", the default of the flag.
func (*requestFlag) String() string { return "" }

// Set parses 'METHOD TARGET', also with the protocol that access logs add.
func (r *requestFlag) Set(text string) error {
	words := strings.Fields(text)
	if len(words) == 3 && strings.HasPrefix(words[2], "HTTP/") {
		words = words[:2]
	}
	if len(words) != 2 {
		return errors.New("want 'METHOD /path', with %20 for a space in the path")
	}
	r.method, r.target = words[0], words[1]
	return nil
}

// Type returns the type name in usage messages.
func (*requestFlag) Type() string { return "string" }

// addressFlag is an IP address with or without a port.
type addressFlag string

// String returns the address.
func (a *addressFlag) String() string { return string(*a) }

// Set accepts an address, with or without a port.
func (a *addressFlag) Set(text string) error {
	if _, err := netip.ParseAddr(text); err != nil {
		if _, err := netip.ParseAddrPort(text); err != nil {
			return errors.New("want an address such as 203.0.113.7 or 2001:db8::7")
		}
	}
	*a = addressFlag(text)
	return nil
}

// Type returns the type name in usage messages.
func (*addressFlag) Type() string { return "string" }
