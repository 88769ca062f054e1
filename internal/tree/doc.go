// Package tree has the tests that read the whole module: that packages import only what
// ARCHITECTURE.md allows, that links, commands, alerts and promises of the pages lead to
// what exists, and that the examples and the manual decide as they say. It has no code of
// its own.
package tree
