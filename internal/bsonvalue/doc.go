// Package bsonvalue knows of BSON values what the driver doesn't: their order,
// and how people write them.
package bsonvalue
