// Command bench measures doclock beside its rivals, in one run:
//
//	go run -C bench .
//
// Each case runs its subjects in turn, round by round, so that the machine's
// other work affects all of them, and compares them within a round. Some cases
// run again over a network, which the dialers of the clients make. Commands to
// the servers are counted when they leave the client.
//
// Its rooms, each of which knows only those above it:
//
//   - servers starts the servers, connects clients to them, and counts what the
//     clients send. It reports the missing servers.
//   - subjects are doclock and its rivals: locks of one document, behind one type.
//   - measure has rounds and results, and the medians and ratios of them.
//   - cases are the questions. A case is declared by its name, its columns and its
//     subjects, and measures a round of one subject. Some run subjects in further
//     processes.
//   - report has the targets, prints the results as tables, and draws plots.
//
// This package has the command line.
package main
