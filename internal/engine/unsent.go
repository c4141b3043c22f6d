package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"
)

// This file reads the driver's errors of commands that never left: the driver
// selected no server, or got no connection to one. (After a retry the driver
// returns the error of the attempt before, which may have left.) Their types have no
// names outside of the driver's x/ packages.

func notSent(err error) bool {
	var (
		queue   topology.WaitQueueTimeoutError
		cleared driver.RetryablePoolError
	)
	return unselected(err) != nil || errors.As(err, &queue) || errors.As(err, &cleared) || handshake(err) != nil
}

// unselected returns the driver's error that it found no server to send to, if
// it is in err's chain.
func unselected(err error) *topology.ServerSelectionError {
	var selection topology.ServerSelectionError
	if errors.As(err, &selection) {
		return &selection
	}
	return nil
}

// handshake returns the error of a connection that was not established, if it
// is in err's chain.
func handshake(err error) error {
	var connection topology.ConnectionError
	if errors.As(err, &connection) && strings.Contains(connection.Error(), "error occurred during connection handshake") {
		return connection
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
	if selection := unselected(err); selection != nil {
		for _, server := range selection.Desc.Servers {
			all = append(all, server.LastError)
		}
	}
	return all
}

// replied is the code of a server's reply in err's chain, or 0.
func replied(err error) int {
	var (
		reply  mongo.CommandError
		direct driver.Error
	)
	switch {
	case errors.As(err, &reply):
		return int(reply.Code)
	case errors.As(err, &direct):
		return int(direct.Code)
	default:
		return 0
	}
}
