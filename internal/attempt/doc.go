// Package attempt runs commands whose outcome must be known even if their
// caller gives up.
//
// A command that was cut off may still execute: the driver closes the
// connection, the server goes on, and an acquire leaves an entry that nobody
// holds. So a command runs to its end on a context detached from its caller's,
// under a timeout of its own, in a goroutine that belongs to a [Group]. A
// caller that gives up gets its answer at once ([Run]), and the command's
// effect is undone. A command of unknown outcome is sent again until it is
// answered ([Settle]).
package attempt
