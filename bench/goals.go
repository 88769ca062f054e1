package main

import "github.com/koalagate/koalagate/bench/report"

// goals are what the developers aim for: a bound that must hold, and one that would be better.
var goals = []report.Goal{
	report.AtLeast("four descriptors, calls/s relative to envoyproxy/ratelimit", 2, 2.5),
	report.AtMost("four descriptors, service and Redis CPU relative to envoyproxy/ratelimit", 0.45, 0.4),
	report.AtMost("four descriptors, p99 relative to envoyproxy/ratelimit", 0.55, 0.5),
	report.AtLeast("four descriptors of one value, calls/s relative to envoyproxy/ratelimit", 2, 2.5),
	report.AtMost("four descriptors of one value, service and Redis CPU relative to envoyproxy/ratelimit", 0.45, 0.4),
	report.AtMost("four descriptors of one value, p99 relative to envoyproxy/ratelimit", 0.55, 0.5),
	report.AtLeast("one counter, calls/s relative to envoyproxy/ratelimit", 2, 2.5),
	report.AtMost("one counter, service and Redis CPU relative to envoyproxy/ratelimit", 0.4, 0.33),
	report.AtLeast("one counter with a lease, calls/s relative to envoyproxy/ratelimit", 3, 3.5),
	report.AtMost("one counter with a lease, service and Redis CPU relative to envoyproxy/ratelimit", 0.25, 0.2),
	report.AtLeast("with the limits of envoyproxy/ratelimit, four descriptors, calls/s relative to envoyproxy/ratelimit", 1.8, 2.5),
	report.AtMost("with the limits of envoyproxy/ratelimit, four descriptors, service and Redis CPU relative to envoyproxy/ratelimit", 0.45, 0.4).Because(importedLimits),
	report.AtMost("with the limits of envoyproxy/ratelimit, four descriptors, p99 relative to envoyproxy/ratelimit", 0.6, 0.5),

	report.AtLeast("in process, calls/s relative to the constant answer", 0.8, 0.9).Because(handler),
	report.AtLeast("Redis, calls/s relative to the constant answer", 0.45, 0.55),
	report.AtLeast("one counter with a lease, Redis, calls/s relative to the constant answer", 0.8, 0.9).Because(handler),
	report.AtLeast("one counter with a lease, Redis, calls/s relative to in process", 0.9, 0.95).Because(partsOfLease),
	report.AtMost("one counter with a lease, Redis CPU per call", 1, 1).Because(partsOfLease),
	report.AtMost("auth_request in process, time relative to a handler with the same answer", 1.3, 1.2).Because(coldHandler),
	report.AtMost("a single caller, time relative to that without batching", 1.1, 1),
	report.AtMost("four descriptors, p99 minus twice p50", 2, 2),

	report.AtMost("90 % over the limit added to regular calls, Redis CPU relative to regular calls alone", 0.15, 0.1),
	report.AtMost("90 % over the limit, 64 callers of the store alone, Redis CPU relative to regular calls", 0.15, 0.1),

	report.AtMost("a trial in process, p99 of callers relative to none", 1.1, 1.05).Because(copies),
	report.AtMost("a trial on Redis, p99 of callers relative to none", 1.1, 1.05).Because(copies),
	report.AtMost("a take with a receipt, service and Redis CPU relative to one without", 1.5, 1.3).Because(receipts),
	report.AtMost("a settlement, service and Redis CPU relative to its take", 1.2, 1),
	report.AtLeast("Envoy with the quota filter, requests/s relative to none", 0.9, 0.95).Because(quotaFilter),
	report.AtMost("the quota filter, service and Redis CPU per request relative to the rate limit filter", 0.02, 0.005),

	report.AtMost("10,000 rules, time of a decision relative to 10 rules, kind with the largest ratio", 1.1, 1.05).Because(largestOfEight),
	report.AtMost("a window of a calendar minute, time of a decision relative to a window in seconds", 1.05, 1),
	report.AtMost("a window of a calendar month, time of a decision relative to a window in seconds", 1.05, 1),
	report.AtMost("a limit from a parameter, time of a decision relative to a window in seconds", 1.05, 1).Because(limitOfCall),
	report.AtMost("a limit from a table of 1000 rows, time of a decision relative to a window in seconds", 1.05, 1).Because(limitOfCall),
	report.AtMost("a queue in process, largest deviation of a turn", 1, 0),
	report.AtMost("a queue in process, a decision before its turn", 1, 0),
	report.AtMost("100,000 rules, loaded in", 1, 0.5).Because(loadingRules),
	report.AtMost("10,000 rules reload each second, p99 relative to none", 1.1, 1).Because(sharedProcessors),
	report.AtMost("a word list, an entry", 100, 50),
	report.AtMost("a word list, a lookup of a word", 100, 50).Because(memoryOfLists),
	report.AtMost("a word list, a lookup of an address", 100, 50).Because(memoryOfLists),
	report.AtMost("a table of a million rows, loaded in", 2, 1).Because(loadingRows),
	report.AtMost("a table of a million rows, a row besides its text", 200, 100),
	report.AtMost("a table of a million rows, a lookup of a random row", 250, 150).Because(memoryOfLists),

	report.AtMost("hostile peers, median latency of decisions during the worst attack", 10, 5).Because(allAttacks),
	report.AtMost("hostile peers, turns in which a decision failed", 0, 0),
	report.AtMost("hostile peers, largest memory of the instance", 300, 250),
	report.AtMost("an operator's question, p99 of decisions relative to none, question with the largest ratio", 1.5, 1.1).Because(sharedProcessors),
	report.AtMost("an upload of a large word list, p99 of decisions relative to none", 2, 1.5).Because(sharedProcessors),

	report.AtMost("an exception that nobody meets, among 100,000", 50, 30).Because(difference),
	report.AtMost("metrics of a decision with its rule", 100, 50),
	report.AtMost("a condition with ten patterns", 1000, 300).Because(tenPatterns),
	report.AtMost("a remembered token, more than a header and a digest of the token", 1000, 300).Because(remembering),
	report.AtMost("a mark, more than a decision without one", 1000, 300),

	report.AtMost("an instance with ten rules, start to first decision", 25, 19).Because(libraries),
	report.AtMost("an instance with ten rules, resident memory", 28, 25).Because(libraries),

	report.AtMost("one rule, service and Redis CPU relative to the version before later features", 1, 0.95).Because(features),
	report.AtMost("one rule in process, service and Redis CPU relative to the version before later features", 1, 0.95).Because(features),
	report.AtMost("four descriptors on four identities, service and Redis CPU relative to the version before later features", 1, 0.95).Because(features),
	report.AtMost("two limits over HTTP, service and Redis CPU relative to the version before later features", 1, 0.95).Because(features),
	report.AtMost("four limits of one identity, service and Redis CPU relative to the version before later features", 0.8, 0.65).Because(features),
	report.AtMost("Redis alone, four limits of one identity, CPU relative to four descriptors on four identities", 0.9, 0.7).Because(noisyRedis),
}

// beforeFeatures is the last commit before quotas, tokens, trials and queues: calls that do not use
// them should not cost more since then.
const beforeFeatures = "e66c663"
