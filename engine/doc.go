// Package engine decides: it walks the rules that a request meets, has the
// store evaluate their counters in one atomic step, and says in a Decision
// what the answer is. It knows no protocol and no clock of its own.
package engine
