// Command picture makes docs/img/cli.svg: a session at a terminal through every
// subcommand of doclock, on a server of its own.
//
//	go run ./picture
package main
