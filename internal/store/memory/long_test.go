package memory_test

import "flag"

// long selects the long form of the tests, which `make verify` runs.
var long = flag.Bool("long", false, "run the long form of the tests")
