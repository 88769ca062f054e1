// Package storetest tests stores: one table of behaviour for all of them, and
// a real Redis for the tests that need one.
package storetest
