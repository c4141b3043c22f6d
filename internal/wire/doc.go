// Package wire reads and makes messages of MongoDB's wire protocol: for tests that stand between a driver and a server.
package wire
