// Package wiring gives an engine the store that it counts in. It exists so
// that the public package engine has an option for it without naming a type of
// package store: other modules cannot import this package, and engines that they
// build count in process.
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
