package vf

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Errors that callers distinguish with errors.Is. Each is wrapped with the object, the wanted
// value, the present value and the next step.
var (
	// ErrHeld says that another owner holds the VF, or a VF of the PF (I1, I5).
	ErrHeld = errors.New("held")
	// ErrNothingFree: no VF of the pool is free.
	ErrNothingFree = errors.New("nothing free")
	// ErrNotFound: there is no such PF, VF, pool or lease.
	ErrNotFound = errors.New("not found")
	// ErrUnable: the driver does not have the setting or refuses the value.
	ErrUnable = errors.New("not supported by the driver")
	// ErrInvalid: the request can never be correct.
	ErrInvalid = errors.New("invalid")
	// ErrRouteTaken: the netns already has another route to that destination.
	ErrRouteTaken = errors.New("there is another route to it")
	// ErrNetnsGone: the path does not exist or is no network namespace (any more).
	ErrNetnsGone = errors.New("no network namespace")
	// ErrTimeout: the kernel did not answer or settle within the bound.
	ErrTimeout = errors.New("timed out")
	// ErrDuplicate: another machine on the segment has the address.
	ErrDuplicate = errors.New("duplicate")
	// ErrUnchanged: there was nothing to change. Only the step SetBondActive reports it.
	ErrUnchanged = errors.New("nothing to change")
	// ErrNotReady: culvertd cannot serve yet; trying again later helps.
	ErrNotReady = errors.New("not ready")
)

// DuplicateError lists IPv6 addresses of which duplicate address detection (RFC 4862, section
// 5.4) found another holder. It wraps ErrDuplicate.
type DuplicateError struct{ Addresses []netip.Addr }

func (e DuplicateError) Error() string {
	names := make([]string, len(e.Addresses))
	for i, a := range e.Addresses {
		names[i] = a.String()
	}
	return fmt.Sprintf("address %s: %s: another machine on the segment has it and answered duplicate address detection", strings.Join(names, ", "), ErrDuplicate)
}

// Unwrap returns ErrDuplicate.
func (e DuplicateError) Unwrap() error { return ErrDuplicate }

// ObjectError says which object an error is about: "PF enp1s0f0", "pod default/a".
type ObjectError struct {
	Object string
	Err    error
}

func (e ObjectError) Error() string { return e.Object + ": " + e.Err.Error() }

// Unwrap returns the error without its object.
func (e ObjectError) Unwrap() error { return e.Err }

// NameObject puts the object in front of an error, unless the error begins with it already.
func NameObject(object string, err error) error {
	named, ok := err.(ObjectError) //nolint:errorlint // what it names further in does not stand in front
	if err == nil || ok && named.Object == object {
		return err
	}
	return ObjectError{object, err}
}

// SplitObject returns the object that an error is about, or "" if it names none, and the rest of
// its text.
func SplitObject(err error) (object, reason string) {
	var named ObjectError
	if errors.As(err, &named) {
		return named.Object, named.Err.Error()
	}
	return "", err.Error()
}
