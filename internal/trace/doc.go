// Package trace writes calls and their answers as lines of JSON, and parses such
// lines, so that rules can be tried on recorded traffic before they become
// active.
//
// A line has this form:
//
//	{"t":1780286400000,"op":"take","params":{"act":"ask","uid":"7"},"hits":1}
//
// The field t is the time of the call in ms since the epoch. The field op is
// take, browse, update, refund, browse-complete, take-complete, peek or reset,
// and defaults to take; hits defaults to 1. A call with several parameter sets
// has them in "sets", each with params and hits. A set may have "refund":true and
// a limit of its own: "limit":{"count":5,"seconds":60,"entries":[…]}. "rule" is
// the number of the rule that peek and reset apply to; "erase" is the feedback
// type of a refund. "answer" or "want" records the answer, and "door" the door
// that received the call. "hash" is the hash of the rule set that decided, "instance" the
// name of the instance, and "request_id" the identifier of the request.
//
// An answer omits fields that do not apply:
//
//	{"verdict":"deny","result":2,"return":201,"limit":1,"remaining":0,"reset_ms":1999,"retry_ms":1999}
package trace
