package vf

import "errors"

// Errors that callers tell apart with errors.Is. Each is wrapped with the
// object, what was wanted, what is there and what to do.
var (
	// ErrHeld: somebody else holds the VF, or a VF of the PF (I1, I5).
	ErrHeld = errors.New("held")
	// ErrNothingFree: no VF of the pool is free.
	ErrNothingFree = errors.New("nothing free")
	// ErrNotFound: there is no such PF, VF, pool or lease.
	ErrNotFound = errors.New("not found")
	// ErrUnable: the driver does not have the setting or refuses the value.
	ErrUnable = errors.New("not supported by the driver")
	// ErrInvalid: what was asked for can never be right.
	ErrInvalid = errors.New("invalid")
	// ErrRouteTaken: the netns has another way to that destination already.
	ErrRouteTaken = errors.New("there is another route to it")
	// ErrNetnsGone: the path is not there or is no network namespace (any more).
	ErrNetnsGone = errors.New("no network namespace")
	// ErrTimeout: the kernel did not answer or settle within the bound.
	ErrTimeout = errors.New("timed out")
	// ErrNotReady: culvertd cannot serve yet; trying again later helps.
	ErrNotReady = errors.New("not ready")
)

// ObjectError says which object an error is about: "PF enp1s0f0", "pod default/a".
type ObjectError struct {
	Object string
	Err    error
}

func (e ObjectError) Error() string { return e.Object + ": " + e.Err.Error() }

// Unwrap returns the error without its object.
func (e ObjectError) Unwrap() error { return e.Err }

// NameObject puts the object in front of an error, unless it stands there already.
func NameObject(object string, err error) error {
	named, ok := err.(ObjectError) //nolint:errorlint // what it names further in does not stand in front
	if err == nil || ok && named.Object == object {
		return err
	}
	return ObjectError{object, err}
}

// SplitObject returns what an error is about, empty when it does not say, and
// the rest of its text.
func SplitObject(err error) (object, reason string) {
	var named ObjectError
	if errors.As(err, &named) {
		return named.Object, named.Err.Error()
	}
	return "", err.Error()
}
