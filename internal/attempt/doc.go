// Package attempt runs commands whose outcome matters more than their caller's
// patience.
//
// A command that was cut off may still execute: the driver closes the
// connection, the server goes on, and an acquire leaves an entry that nobody
// holds. So a command runs to its end on a context detached from its caller's,
// under a timeout of its own, in a goroutine that belongs to a [Group]. A
// caller who gives up gets its answer at once ([Run]), and what the command
// then brings is undone. A command whose outcome is unknown is sent again
// until it is answered ([Settle]).
package attempt
