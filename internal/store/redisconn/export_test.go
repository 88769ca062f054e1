package redisconn

// TooOld reports whether a version of Redis is below 6.2.
func TooOld(version string) bool { return tooOld(version) }
