package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/koalagate/koalagate/internal/doorname"
	"github.com/koalagate/koalagate/internal/mapping"
)

// envoyFacts are what Envoy says of a request beyond HTTP, at the door
// extauthz: the sources `metadata`, `principal` and `sni` of [params].
type envoyFacts struct {
	metadata  []string // NAMESPACE PATH=VALUE
	principal string
	sni       string
}

func (f *envoyFacts) any() bool {
	return len(f.metadata) > 0 || f.principal != "" || f.sni != ""
}

// say puts them into the call.
func (f *envoyFacts) say(call *mapping.Request) error {
	if !f.any() {
		return nil
	}
	if call.Door != doorname.ExtAuthz {
		return errors.New("metadata, a principal and an SNI are what Envoy says at the door extauthz; take them out, or --door")
	}
	call.Principal, call.SNI = f.principal, f.sni
	values := make(map[[2]string]string)
	for _, text := range f.metadata {
		place, value, found := strings.Cut(text, "=")
		words := strings.Fields(place)
		if !found || len(words) != 2 {
			return fmt.Errorf("%q is no metadata; want 'NAMESPACE PATH=VALUE', with NAMESPACE and PATH as in [params]", text)
		}
		key := [2]string{words[0], words[1]}
		if _, twice := values[key]; twice {
			return fmt.Errorf("the metadata %s %s is given twice", words[0], words[1])
		}
		values[key] = value
	}
	call.Metadata = func(namespace, path string) (string, bool) {
		value, ok := values[[2]string{namespace, path}]
		return value, ok
	}
	return nil
}
