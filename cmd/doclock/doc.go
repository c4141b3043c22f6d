// Command doclock shows and removes the locks of a MongoDB collection, and runs
// a command while it holds one.
//
//	export MONGODB_URI=mongodb://localhost:27017
//	doclock run nightly -- ./backup.sh              # one at a time, on all machines
//	doclock ls -c shop.orders --older 1h            # which documents are locked?
//	doclock inspect -c shop.orders A-17             # who holds this one?
//	doclock break -c shop.orders A-17               # shows it, asks, removes it
//
// docs/operations.md has every subcommand, made from the same texts as the help.
//
// The command line is a module of its own, so that the library doesn't need what
// it needs. It uses cobra, which completes subcommands, flags and their values in
// bash, zsh, fish and PowerShell, and has a place for examples in each help;
// docs_test.go makes the markdown from its tree of commands. Operators know the
// form of its help from kubectl, docker and gh. kong needs another module for
// completion; urfave/cli v3 would do as well.
package main
