// Package storetest tests stores.
//
// Run checks a store against the behavior table, which every store passes.
// StartServer, StartNode, StartSentinels and StartCluster start real Redis servers
// that end with the test. A Way is a set of optimizations of the Redis store: tests
// of exactness run with several, because the answers must not depend on it.
package storetest
