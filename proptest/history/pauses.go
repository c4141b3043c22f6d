package history

import (
	"cmp"
	"slices"
	"time"
)

// PropertyPause is counted for every question after a refusal if the process
// received no news in between.
const PropertyPause = "a refused requester that received no news does not ask again and again without a pause"

// leastPause is a little shorter than the library's pause: expiries and the
// server's clock are whole milliseconds.
const leastPause = 900 * time.Microsecond

// pauses allows one question directly after a refusal: the first was for the
// lock alone, and the next is for a place. It does not allow a further one. Any
// message of the process for this document in between may have brought news.
func (c *check) pauses() {
	waits := c.waits()
	asked := map[string][]*Command{} // by entry
	heard := map[int][]int64{}       // times, by process
	for i := range c.commands {
		command := &c.commands[i]
		if command.Ghost || command.Kind == CommandRead {
			continue
		}
		heard[command.Process] = append(heard[command.Process], command.Sent, command.Answered)
		if waits[command.ID] && (command.Kind == CommandAcquire || command.Kind == CommandConfirm) {
			asked[command.ID] = append(asked[command.ID], command)
		}
	}
	for _, times := range heard {
		slices.Sort(times)
	}
	for id, commands := range asked {
		slices.SortFunc(commands, func(a, b *Command) int { return cmp.Compare(a.Sent, b.Sent) })
		inARow := 0
		for i := 1; i < len(commands); i++ {
			before, again := commands[i-1], commands[i]
			if !before.refused() || again.Handed || again.Process != before.Process || news(heard[again.Process], before, again) {
				inARow = 0
				continue
			}
			c.Checked(PropertyPause, 1)
			pause := time.Duration(again.Sent - before.Answered)
			if inARow++; pause >= leastPause {
				inARow = 0
			}
			if inARow > 1 {
				c.Violated(PropertyPause, "document %s: %s %.8s was refused, and asked again after %v, the second time in a row", c.ID, again.Tag, id, pause)
			}
		}
	}
}

// refused reports whether the command was answered, and its entry holds
// nothing.
func (c *Command) refused() bool {
	if c.Image == nil || c.Answered == 0 || c.Handed {
		return false
	}
	own, there := c.Image.find(c.ID)
	return !there || own.Fence == 0
}

// news reports whether a process sent or received something else between two
// commands.
func news(heard []int64, before, again *Command) bool {
	n := 0
	i, _ := slices.BinarySearch(heard, before.Sent)
	for ; i < len(heard) && heard[i] <= again.Sent; i++ {
		n++
	}
	return n > 3 // both were sent, and the first was answered
}
