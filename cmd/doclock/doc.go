// Command doclock shows and removes the locks of a MongoDB collection, and runs
// a command while it holds one.
//
//	export MONGODB_URI=mongodb://localhost:27017
//	doclock run nightly -- ./backup.sh              # one at a time, on all machines
//	doclock ls -c shop.orders --older 1h            # which documents are locked?
//	doclock inspect -c shop.orders A-17             # who holds this one?
//	doclock break -c shop.orders A-17               # shows it, asks, removes it
//
// docs/cli.md has every subcommand, and is made from the same texts as the help.
//
// The command line is a module of its own, so that the library doesn't need what
// it needs. It uses cobra, which completes arguments in bash, zsh, fish and
// PowerShell, has a place for examples in each help, and writes the commands as
// markdown. Of kong and urfave/cli, the one has no completion of its own, and the
// other's completion and markdown are younger than cobra's.
package main
