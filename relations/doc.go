// Package relations holds the tables that say how the tags of a lock treat each other.
package relations
