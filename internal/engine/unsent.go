package engine

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// This file reads the driver's errors of commands that never left: the driver
// selected no server, or got no connection to one. (After a retry the driver
// returns the error of the attempt before, which may have left.) The types are in
// the driver's x/ packages, so they and their fields are known by name.
const (
	driversTopology = "go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"
	driversReplies  = "go.mongodb.org/mongo-driver/v2/x/mongo/driver"
)

func notSent(err error) bool {
	return inChain(err, driversTopology, "ServerSelectionError", "WaitQueueTimeoutError", "poolClearedError") != nil || handshake(err) != nil
}

// unselected returns the driver's error that it found no server to send to, if
// it is in err's chain.
func unselected(err error) error { return inChain(err, driversTopology, "ServerSelectionError") }

// handshake returns the error of a connection that was not established, if it
// is in err's chain.
func handshake(err error) error {
	c := inChain(err, driversTopology, "ConnectionError")
	if c == nil || !strings.Contains(c.Error(), "error occurred during connection handshake") {
		return nil
	}
	return c
}

// inChain looks for an error of one of these types of the driver.
func inChain(err error, pkg string, types ...string) error {
	for ; err != nil; err = errors.Unwrap(err) {
		if t := reflect.TypeOf(err); t.PkgPath() == pkg && slices.Contains(types, t.Name()) {
			return err
		}
	}
	return nil
}

// unsent is the Failure of a command that could not be sent. It passes, unless
// each server refuses the connection, as with wrong credentials. Its text begins
// with the reason.
func unsent(err error) *Failure {
	f := &Failure{Nothing: true, Passes: true, err: err}
	if unselected(err) != nil {
		f.Cause = CauseAway
	}
	last := lastErrors(err)
	if i := slices.IndexFunc(last, func(err error) bool { return err != nil }); i >= 0 {
		f.err = fmt.Errorf("%w: %w", last[i], err)
	}
	if c := handshake(err); c != nil {
		last = []error{c}
	}
	why := ""
	for _, err := range last {
		switch code := replied(err); {
		case code == 0, interrupted.has(code):
			return f
		case slices.Contains(authentication, code):
			why = "authentication failed"
		default:
			why = "the server refuses the connection"
		}
	}
	if why != "" {
		f.Passes, f.err = false, fmt.Errorf("%s: %w", why, f.err)
	}
	return f
}

// authentication are the codes of a login that fails: AuthenticationFailed,
// MechanismUnavailable, AtlasError.
var authentication = []int{18, 334, 8000}

// lastErrors are the last errors of the servers among which the driver found
// none to send to; nil is one without an error.
func lastErrors(err error) (all []error) {
	selection := unselected(err)
	if selection == nil {
		return nil
	}
	servers := member(member(reflect.ValueOf(selection), "Desc"), "Servers")
	if servers.Kind() != reflect.Slice {
		return nil
	}
	for i := range servers.Len() {
		var last error
		if of := member(servers.Index(i), "LastError"); of.IsValid() {
			last, _ = of.Interface().(error)
		}
		all = append(all, last)
	}
	return all
}

// replied is the code of a server's reply in err's chain, or 0.
func replied(err error) int {
	var reply mongo.CommandError
	if errors.As(err, &reply) {
		return int(reply.Code)
	}
	if code := member(reflect.ValueOf(inChain(err, driversReplies, "Error")), "Code"); code.CanInt() {
		return int(code.Int())
	}
	return 0
}

// member is a field of a struct, or the zero Value.
func member(v reflect.Value, name string) reflect.Value {
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v.FieldByName(name)
}
