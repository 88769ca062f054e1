// Package trace writes down calls and their answers, a line of JSON each, and
// reads such lines again, so that rules can be tried on the traffic of
// yesterday before they are in force.
//
// A line looks like this:
//
//	{"t":1780286400000,"op":"take","params":{"act":"ask","uid":"7"},"hits":1}
//
// where t is the time of the call in ms since the epoch, op is one of take,
// browse, update, refund, browse-complete, take-complete, peek and reset (take
// unless said) and hits is 1 unless said. A call of several parameter sets has
// them in "sets", each with params and hits. A set may say "refund":true, and
// bring a limit of its own: "limit":{"count":5,"seconds":60,"entries":[…]}.
// "rule" is the number that peek and reset are about; "erase" the feedback type
// that a refund is for. What was answered may stand in "answer" or "want", and
// the caller's entry in "door".
//
// An answer has no field for what there is nothing to say of:
//
//	{"verdict":"deny","result":2,"return":201,"limit":1,"remaining":0,"reset_ms":1999,"retry_ms":1999}
package trace
