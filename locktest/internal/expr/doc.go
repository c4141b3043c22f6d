// Package expr evaluates aggregation expressions: all that the locks' own
// commands use, and those that are common in updates. An expression that it does
// not know is refused, by name.
package expr
