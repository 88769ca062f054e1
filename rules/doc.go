// Package rules implements the rule language: it parses rule files into a Set, which
// returns the rules that a request matches and the identities of their counters. The
// package is pure: it uses no clock, no files and no network.
//
// A file has sections and one statement per line; # begins a comment.
//
//	[settings]
//	timezone : Asia/Shanghai                  the time zone of calendar days
//
//	[dicts]
//	white : lists/white.dat                   one word, address or block per line
//
//	[tables]
//	plans : plans.csv                         limits and other values by key
//
//	[tokens]
//	main : keys.json; issuer=https://id.example.com/    verified tokens
//
//	[params]
//	uid : header X-User-Id else cookie uid    the sources of parameters
//
//	[routes]
//	POST /api/comments : act=add_comment      parameters by method and path
//
//	[forward]
//	X-User-Id : uid                           a header for the application
//
//	[rules]
//	rule : [method] [conditions] [thresholds] [outcome]
//	rule : [direct] [uid @ white] [] [result=1; return=101]
//	rule : [count] [act=ask,answer{~}; uid=+] [time=60; count=5] [result=2; return=201]
//
//	[result]
//	0 : {"Err_no":0}                          no rule matches
//	1 : {"Err_no":0}                          rules match, none decides
//	2 : {"Err_no":10, "Str_reason":"Deny"}
//	[end]                                     the file is complete
//
// A rule matches if all its conditions hold: = and != with values, ranges, patterns
// (10.*.24.*) and blocks; =+ and !=+ for a present and an absent parameter; < and >;
// @ and !@ for word lists; ~ and !~ for patterns of text (*bot*);
// before now and after now for dates. The values of its parameters, without parameters marked {~}, are
// the identity of its counter. Methods: direct decides at once; count has a window;
// base has free hits per day, then a window; leak is a sliding window; token is a
// bucket; hold limits what is in use at the same time, until a settlement frees it.
//
// The files form four layers. A file uses no identifier that a file of a later layer
// declares:
//
//	base      errors.go findings.go position.go spelling.go value.go instant.go
//	deciding  rule.go condition.go glob.go threshold.go dict.go table.go params.go jwt.go
//	          forward.go routes.go set.go index.go want.go rangetree.go match.go named_identity.go
//	          compare.go quota.go
//	reading   parse*.go format*.go
//	checking  check*.go warn*.go
//
// The base has findings, their codes and positions, and the values that conditions compare.
// To decide, Match asks the index (index.go, want.go) for the rules that a request may match
// and fills a Matches. To read, the parser cuts lines into spans (position.go,
// parse_line.go) and reads them into declarations, and Format formats a file. Parse, in
// check.go, reads all files, checks the declarations against each other, warns, and builds
// the index. It reports each mistake as a Finding with a code from errors.go. README.md is
// the manual of the language.
package rules
