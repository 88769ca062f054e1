// Package envoylimits compiles the configuration of envoyproxy/ratelimit, in its YAML
// or in its xDS messages, and finds the limit of a descriptor.
//
// Read reads a file (yaml.go), FromProto a message (xds.go); both yield a Config.
// Compile (compile.go) makes a Set of several Configs, or returns an error in the words
// of envoyproxy/ratelimit, which control planes show. Set.Match (match.go) walks the
// levels of a domain as envoyproxy/ratelimit does. The package neither counts nor
// decides; rules.go prints a Set as a rule file.
package envoylimits

// Config is one file or resource: limits of one domain.
type Config struct {
	// Name is the name of the file or resource, for errors.
	Name        string
	Domain      string
	Descriptors []Descriptor
}

// Descriptor is one element of a level, with the levels below it.
type Descriptor struct {
	Key string
	// Value is the value that an entry must have, in which each * stands for any
	// characters; "" matches every value.
	Value string
	// Policy is the limit; nil for none.
	Policy      *Policy
	Descriptors []Descriptor
	// Shadow makes the limit report that it is not exceeded.
	Shadow bool
	// Quota makes the limit refuse only together with all other quotas of a call.
	Quota bool
	// Detailed names the statistics of the limit after all entries of the request.
	Detailed bool
	// ValueToMetric adds the value of the entry to the name of the statistics.
	ValueToMetric bool
	// Share makes all values that match the pattern share one counter.
	Share bool
	// Metadata is added to the answer if the limit is not exceeded; nil for none.
	Metadata map[string]any
}

// Policy is the limit of a descriptor.
type Policy struct {
	// Unit is the name of the unit, in any case.
	Unit      string
	Requests  uint32
	Unlimited bool
	Name      string
	Replaces  []string
}

// Unit is the length of a window. The numbers are from Envoy's rate limit service,
// envoy/service/ratelimit/v3/rls.proto.
type Unit uint8

// The units. Unknown is the unit of unlimited limits.
const (
	Unknown Unit = 0
	Second  Unit = 1
	Minute  Unit = 2
	Hour    Unit = 3
	Day     Unit = 4
	Month   Unit = 5 // 30 days
	Year    Unit = 6 // 365 days
	Week    Unit = 7 // 7 days, from Thursday to Wednesday
)

var units = [...]struct {
	name    string
	seconds int64
}{
	Unknown: {"UNKNOWN", 0}, Second: {"SECOND", 1}, Minute: {"MINUTE", 60}, Hour: {"HOUR", 3600},
	Day: {"DAY", 86_400}, Month: {"MONTH", 30 * 86_400}, Year: {"YEAR", 365 * 86_400}, Week: {"WEEK", 7 * 86_400},
}

// String returns the name of the unit in upper case.
func (u Unit) String() string {
	if int(u) < len(units) {
		return units[u].name
	}
	return units[Unknown].name
}

// Seconds returns the length of a window in seconds, 0 for an unknown unit.
func (u Unit) Seconds() int64 {
	if int(u) < len(units) {
		return units[u].seconds
	}
	return 0
}
