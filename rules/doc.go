// Package rules is the rule language: from the text of rule files to a Set
// that tells which rules a request meets and whose counters they are. It is
// pure: no clock, no file, no network.
//
// A file has sections, and one statement a line; # begins a comment.
//
//	[settings]
//	timezone : Asia/Shanghai                  the zone of calendar days
//
//	[dicts]
//	white : lists/white.dat                   a word list: one word, address or block a line
//
//	[params]
//	uid : header X-User-Id else cookie uid    where parameters come from
//
//	[routes]
//	POST /api/comments : act=add_comment      parameters by method and path
//
//	[rules]
//	rule : [method] [conditions] [thresholds] [outcome]
//	rule : [direct] [uid @ white] [] [result=1; return=101]
//	rule : [count] [act=ask,answer{~}; uid=+] [time=60; count=5] [result=2; return=201]
//
//	[result]
//	0 : {"Err_no":0}                          no rule matches
//	1 : {"Err_no":0}                          some match, none decides
//	2 : {"Err_no":10, "Str_reason":"Deny"}
//	[end]                                     nothing was cut off
//
// A rule matches when all its conditions hold: = and != with a value, several,
// ranges, patterns (10.*.24.*) and blocks; =+ and !=+ for any value and none;
// < and >; @ and !@ for word lists. Its counter belongs to the values of its
// parameters, but for those marked {~}. Methods: direct decides at once; count
// has a window; base some free hits a day, then a window; leak slides; token
// is a bucket.
//
// One way through the package: Parse cuts lines into spans (lexer.go), reads
// them into declarations (parse*.go), checks what concerns several of them
// (check.go, warn.go, unreachable.go) and makes the index; Match fills a
// Matches (match.go, index.go, want.go, condition.go, identity.go). Everything
// that is found on the way is a Finding with a code of errors.go. Format lays a
// file out (format.go, layout.go). README.md is the manual of the language.
package rules
