package method

// Gateways that decide by themselves get shares of limits: a rate, and a burst of hits that
// they hold in advance. The bursts of all shares of a limit have one part in so many of what
// lease=P% lets gateways hold in advance.
const (
	BucketBursts = 2
	WindowBursts = 4
)

// ShortestShared is the least length of a window of which gateways can have shares, in seconds:
// a share lasts for seconds, and none may be spent in the next window.
const ShortestShared = 60

// slowestShare is the time in which a share is filled with one hit at least, in seconds.
const slowestShare = 10

// TooSmall returns the word of the rule language, count or burst, whose value is so small that
// no hit of the limit is left for a share, and the least value that leaves one; "" if none is.
// time is in seconds, and lease in thousandths, above 0.
func (m *Method) TooSmall(time, count, burst, lease int64) (word string, least int64) {
	atLeast := func(hits, per int64) int64 { return (hits + per - 1) / per }
	if !m.Refills {
		if least = atLeast(WindowBursts*1000, lease); count < least {
			return "count", least
		}
		return "", 0
	}
	if least = atLeast(time, slowestShare); count < least {
		return "count", least
	}
	if least = atLeast(BucketBursts*1000, lease); burst < least {
		return "burst", least
	}
	return "", 0
}
