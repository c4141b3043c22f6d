// Package value has BSON values in their encoded form, documents that are open
// for changes, the arithmetic of numbers, and the errors of a server. A missing
// value is the zero [bson.RawValue].
package value
