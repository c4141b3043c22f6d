// Package leaders has several processes campaign with writelock's Lead, kills or
// stops each leader, and checks that no two leaders believe in their leases at the
// same time.
//
// A leader says again and again at what time its lease is valid, by the clock of
// the machine that all processes share. Nobody may set that clock meanwhile.
package leaders
