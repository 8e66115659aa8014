package rpc

import (
	"context"
	"errors"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/exactjson"
	"github.com/culvert-net/culvert/internal/vf"
)

// ErrNoDaemon says that no process serves the socket, or that culvertd went away before it
// answered.
var ErrNoDaemon = errors.New("culvertd does not answer")

// ErrDenied: the peer may not use the socket.
var ErrDenied = errors.New("not allowed")

// Codes of errors that are no sentinel of package vf.
const (
	CodeInternal      = "internal"
	CodeBadRequest    = "bad-request"
	CodeUnknownMethod = "unknown-method"
)

// codes carries the sentinels across the socket, so that errors.Is holds on
// both sides. The first that matches is taken.
var codes = []struct {
	code string
	err  error
}{
	{"held", vf.ErrHeld},
	{"nothing-free", vf.ErrNothingFree},
	{"not-found", vf.ErrNotFound},
	{"unable", vf.ErrUnable},
	{"invalid", vf.ErrInvalid},
	{"timeout", vf.ErrTimeout},
	{"not-ready", vf.ErrNotReady},
	{"denied", ErrDenied},
	{"deadline", context.DeadlineExceeded},
	{"cancelled", context.Canceled},
}

// wireError returns err for the wire. It sends an *api.Error in the chain as it is.
func wireError(err error) *api.Error {
	var e *api.Error
	if errors.As(err, &e) {
		return e
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return &api.Error{Code: c.code, Message: err.Error(), Details: hintOlder(err)}
		}
	}
	return &api.Error{Code: CodeInternal, Message: err.Error()}
}

// olderDaemon is the next step when culvertd does not know a method or a field. Methods and fields
// are only added, so the client is the newer one.
const olderDaemon = "culvertd is older than the program that asks: install the culvertd that came with that program"

// hintOlder returns the next step for a request with an unknown field, and no text for other errors.
func hintOlder(err error) string {
	if errors.As(err, new(exactjson.Unknown)) {
		return olderDaemon
	}
	return ""
}

// remoteError is an error that came over the wire.
type remoteError struct{ wire *api.Error }

func (e remoteError) Error() string { return e.wire.Error() }

func (e remoteError) Unwrap() error { return e.wire }

func (e remoteError) Is(target error) bool {
	for _, c := range codes {
		if c.err == target {
			return c.code == e.wire.Code
		}
	}
	return false
}

// noDaemon names the socket that did not answer and the next step; the cause is kept for
// errors.Is.
type noDaemon struct {
	socket string
	cause  error
}

func (e *noDaemon) Error() string {
	return ErrNoDaemon.Error() + " on " + e.socket + ": systemctl status culvertd"
}

func (e *noDaemon) Unwrap() []error { return []error{ErrNoDaemon, e.cause} }
