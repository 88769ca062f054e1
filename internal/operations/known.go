package operations

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/koalagate/koalagate/internal/pace"
	"github.com/koalagate/koalagate/internal/spelling"
	"github.com/koalagate/koalagate/rules"
)

// maxKnown is the number of parameters that an error lists.
const maxKnown = 20

// checkKnown returns an InputError if no rule knows a parameter of an identity, which is then
// misspelled or belongs to a request, or the error of ctx.
func (d *Desk) checkKnown(ctx context.Context, set *rules.Set, params *rules.Params) error {
	for _, p := range params.List() {
		if set.Uses(p.Name) {
			continue
		}
		all := make(map[string]bool)
		for _, r := range set.Rules {
			if err := pace.Step(ctx); err != nil {
				return err
			}
			for _, name := range r.CountsBy() {
				all[name] = true
			}
		}
		names := slices.Sorted(maps.Keys(all))
		remedy := "no rule counts by any parameter"
		if len(names) > 0 {
			remedy = "want parameters by which rules count: " + strings.Join(names[:min(len(names), maxKnown)], ", ")
		}
		if near := spelling.Suggest(p.Name, names); near != "" {
			remedy = fmt.Sprintf("did you mean %s? %s", near, remedy)
		}
		if d.imported != nil {
			remedy += "; ask about a descriptor of the rate limit service with its domain at the door " + importedDoor
		}
		return invalid("no rule knows the parameter %.100q; %s", p.Name, remedy)
	}
	return nil
}
