package exceptions

import (
	"slices"
	"strings"

	"github.com/koalagate/koalagate/engine"
	"github.com/koalagate/koalagate/rules"
)

// maxPairs is the maximum number of parameters of a ban.
const maxPairs = 16

// resolveBan is resolve for a ban, which depends on no rule.
func (x *Exception) resolveBan() (engine.Exception, map[string]string, error) {
	switch {
	case x.Rule != 0 || x.Limit != "":
		return engine.Exception{}, nil, invalid("a ban is from everything, and names no rule and no limit; deny refuses one of them")
	case len(x.Identity) == 0:
		return engine.Exception{}, nil, invalid("a ban without parameters would refuse everybody; want NAME=VALUE")
	case len(x.Identity) > maxPairs:
		return engine.Exception{}, nil, invalid("the ban has %d parameters; want at most %d", len(x.Identity), maxPairs)
	}
	params := rules.MakeParams(x.Identity)
	if params.Len() != len(x.Identity) {
		return engine.Exception{}, nil, invalid("the ban has two values of a parameter, which no request has")
	}
	identity := make(map[string]string, len(x.Identity))
	resolved := engine.Exception{ID: x.ID, Kind: engine.ExceptBan, Until: x.Until.UnixMilli()}
	for _, p := range params.List() {
		if strings.Contains(p.Name, "@") {
			return engine.Exception{}, nil, invalid("%.100q names no source of a parameter; want NAME or NAME@SOURCE, such as uid@client-ip", p.Name)
		}
		p.Name, p.Value = params.FullName(p.Name), strings.TrimSpace(p.Value)
		if p.Value == "" {
			return engine.Exception{}, nil, invalid("the parameter %.100q of the ban has no value", p.Name)
		}
		identity[p.Name] = p.Value
		resolved.Params = append(resolved.Params, p)
	}
	slices.SortFunc(resolved.Params, func(a, b rules.Param) int { return strings.Compare(a.Name, b.Name) })
	return resolved, identity, nil
}

// checkKnown returns an error if no request has a parameter of a ban for certain: the doors derive
// some from every request, [params] declares others, and above max_params they drop those that
// no rule knows.
func checkKnown(set *rules.Set, limits Limits, params []rules.Param) error {
	if limits != nil {
		return nil // the entries of descriptors have any names
	}
	for _, p := range params {
		name, _, _ := strings.Cut(p.Name, "@")
		declared := slices.ContainsFunc(set.Params, func(d *rules.ParamDecl) bool { return d.Name == name && !d.IsLate() })
		if !declared && !set.Uses(name) && !rules.IsDerived(name) {
			return invalid("neither a rule nor [params] knows the parameter %.100q, so that the ban would refuse nobody", p.Name)
		}
	}
	return nil
}
