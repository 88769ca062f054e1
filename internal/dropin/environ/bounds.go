package environ

import "time"

// The bounds of koalagate's settings for connections.
const (
	minAge, maxAge     = time.Second, 24 * time.Hour
	minGrace, maxGrace = 100 * time.Millisecond, 10 * time.Minute
)

// bounded returns the value of a setting that is closest to a duration, of which 0 means
// without end. A negative one stays, and is refused as a setting.
func bounded(d, least, most time.Duration) time.Duration {
	switch {
	case d == 0:
		return most
	case d < 0:
		return d
	}
	return min(max(d, least), most)
}

// boundPauses replaces pauses that are not above 0 by the defaults of the library that
// envoyproxy/ratelimit has them from. The longest pause wins over the first one.
func (x *XDS) boundPauses() {
	if x.Initial <= 0 {
		x.Initial = 100 * time.Millisecond
	}
	if x.Max <= 0 {
		x.Max = 10 * time.Second
	}
	x.Initial = min(x.Initial, x.Max)
}

// Ignored returns the variables that are set and have no effect, each with the reason,
// for the log.
func (s *Settings) Ignored(environ []string) []string {
	var notes []string
	if s.Redis.PerSecond {
		notes = append(notes, "REDIS_PERSECOND: limits of unit SECOND count in the Redis of REDIS_URL, like all others")
	}
	if g := s.MaxConnectionAgeGrace; (g == 0 || g > maxGrace) && s.set["GRPC_MAX_CONNECTION_AGE_GRACE"] {
		notes = append(notes, "GRPC_MAX_CONNECTION_AGE_GRACE: calls of a closing connection end after "+maxGrace.String())
	}
	for _, entry := range environ {
		for name, reason := range ignored {
			if len(entry) > len(name) && entry[:len(name)] == name && entry[len(name)] == '=' {
				notes = append(notes, name+": "+reason)
			}
		}
	}
	return notes
}

// ignored are the variables that koalagate does not need, with the reason.
var ignored = map[string]string{
	"LOCAL_CACHE_SIZE_IN_BYTES":     "koalagate remembers refusals by itself; see redis_refusals",
	"REDIS_PIPELINE_WINDOW":         "koalagate sends concurrent calls together by itself; see redis_batching",
	"REDIS_POOL_SIZE":               "koalagate opens the connections that it needs",
	"REDIS_POOL_ON_EMPTY_BEHAVIOR":  "koalagate opens the connections that it needs",
	"REDIS_TIMEOUT":                 "koalagate counts in process if Redis takes longer than redis_budget",
	"EXPIRATION_JITTER_MAX_SECONDS": "counters expire with their windows",
	"USE_DOG_STATSD":                "koalagate writes plain statsd; set USE_STATSD=true",
	"TRACING_ENABLED":               "koalagate exports spans with the variables of OpenTelemetry; see OTEL_EXPORTER_OTLP_ENDPOINT",
}
