// Package wiring sets the store of an engine. It is separate from the public package
// engine so that no option of engine names a type of package store, which is
// internal. Other modules cannot import this package, so the engines that they build
// count in process.
package wiring

import "github.com/koalagate/koalagate/internal/store"

// EngineOptions are the options of engine.New.
type EngineOptions struct {
	// Store is where the engine counts; nil for a new in-process store.
	Store store.Store
	// Engine holds the options whose types belong to package engine. Only that
	// package reads and writes it.
	Engine any
}

// CountIn returns an option of engine.New: the engine counts in s.
func CountIn(s store.Store) func(*EngineOptions) {
	return func(o *EngineOptions) { o.Store = s }
}
