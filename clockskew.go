package doclock

import "time"

// clockOffsets are the differences between servers' clocks and this machine's,
// by server.
type clockOffsets map[string]offsetRange

// offsetRange is what one answer tells: the server read its clock at some time
// between the send and the answer.
type offsetRange struct{ least, most time.Duration }

func (r offsetRange) width() time.Duration  { return r.most - r.least }
func (r offsetRange) middle() time.Duration { return r.least + r.width()/2 }

// add keeps the answer that came fastest: it tells most.
func (c *clockOffsets) add(server string, clock, sent, answered time.Time) {
	if *c == nil {
		*c = clockOffsets{}
	}
	seen := offsetRange{least: clock.Sub(answered), most: clock.Sub(sent)}
	if before, known := (*c)[server]; !known || seen.width() < before.width() {
		(*c)[server] = seen
	}
}

// skew is the greatest difference between two of the servers.
func (c clockOffsets) skew() time.Duration {
	var least, most time.Duration
	first := true
	for _, r := range c {
		if first || r.middle() < least {
			least = r.middle()
		}
		if first || r.middle() > most {
			most = r.middle()
		}
		first = false
	}
	return most - least
}
