// Package toxic tests the service under load with a Redis that hangs, dies, slows
// down, cuts connections or sends partial answers. It is a separate module, so that
// the proxy that disturbs connections is not a dependency of the service.
package toxic
