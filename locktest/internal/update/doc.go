// Package update applies updates to documents: the classic operators, with array
// filters, and pipelines. An operator that it does not know is refused, by name,
// and so is the positional operator `.$`.
package update
