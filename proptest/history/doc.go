// Package history decides whether what many clients saw of the locks agrees
// with the protocol. It shares no code with the library: it reads the commands
// and the images off the driver's wire, with a parser of its own, and judges
// by the table as plain data.
//
// A [History] is made of operations, what a program called and was told, and
// of commands, what went to the server and came back. An image in a reply is
// exact: it shows every entry of one document at one point of its history.
// Everything else is known as an interval: when a command was executed lies
// between its send and its reply, and one that was never answered was executed
// at any time from its send on, or not at all.
//
// Clocks of processes are compared through the server's, see [clock]. A
// violation is claimed only where it is one for every instant of the intervals
// and for either outcome of what is unknown: there are no false alarms, and
// what is uncertain is used for what it can't be doubted to say.
//
// A handoff is recorded as what it does: a release, and the heir's arrival or
// confirm the moment after.
//
// [History.Check] counts each check and each violation in a tally. For each
// property the tests have a history, written by hand, that is refused, and a
// near twin that is not.
package history
