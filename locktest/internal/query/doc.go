// Package query matches documents with filters: equality, the comparisons, sets,
// arrays, regular expressions, $expr, and what joins them. An operator that it
// does not know is refused, by name. A collation is not.
package query
