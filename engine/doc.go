// Package engine decides calls by a rule set. It matches the parameters of a
// call against the rules, evaluates the counters of the matching rules in one
// atomic step, and returns a Decision. It knows no protocol.
//
// New builds an engine that counts in process:
//
//	e := engine.New(set)
//	d, err := e.Decide(ctx, &engine.Call{
//		Op:     engine.Take,
//		Inputs: []engine.Input{{Params: rules.MakeParams(map[string]string{"uid": "ann"})}},
//	})
//	if err != nil || !d.Allowed() {
//		// refuse
//	}
//
// Package koalagate opens an engine that reads rule files, reloads them when
// they change and counts in Redis.
//
// A verdict is allow, deny or challenge. Only an explicit allow lets a request
// through: zero values, unknown values and errors never do.
package engine
