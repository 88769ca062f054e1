// Package toxic holds the tests of a Redis that hangs, dies, crawls, cuts or
// answers by halves, under load. It is a module of its own: the proxy that
// spoils connections is no dependency of the service.
package toxic
