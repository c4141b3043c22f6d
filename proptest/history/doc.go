// Package history checks whether the locks that many clients saw agree with the
// protocol. It shares no code with the library: it reads the commands and the
// images from the driver's messages, with a parser of its own, and decides by
// the relations as plain data.
//
// A [History] consists of operations (a program's calls and their results) and
// commands (messages to the server and their replies). An image in a reply is
// exact: it shows every entry of one document at one point of its history.
// Everything else is known as an interval. A command was executed between its
// send and its reply. A command without an answer was executed at any time from
// its send on, or not at all.
//
// Clocks of processes are compared through the server's, see [clock]. A
// violation is reported only if it is one for every instant of the intervals
// and for either result of each unknown outcome. So there are no false alarms,
// and uncertain events count only for their certain part.
//
// A handoff is recorded as its two effects: a release, and the successor's
// arrival or confirm directly after it.
//
// [History.Check] counts each check and each violation in a tally. For each
// property the tests have a history, written by hand, that is refused, and a
// similar one that is not.
package history
