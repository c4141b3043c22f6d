// Package store has the documents of a server in memory, and executes commands on
// them, one after the other. A command that it does not know is refused, by name,
// as are transactions and collations.
package store
