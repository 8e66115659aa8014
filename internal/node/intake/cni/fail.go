package cni

import (
	"context"
	"encoding/json"
	"errors"
	"syscall"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/strictjson"
	"github.com/culvert-net/culvert/internal/vf"
)

// These are Culvert's own error codes; the specification (section 5, "error") leaves 100 and up
// to plugins. From the specification Culvert uses 1 (cniVersion not served), 2 (unknown or
// unserved key), 3 (CHECK of an attachment that the ledger does not have), 4 (environment), 6
// (not JSON), 7 (invalid configuration or request), 11 (try again later: not ready, timed out,
// no daemon), 50 (STATUS) and 999.
const (
	CodeNothingFree uint = 100 // no VF or address is free
	CodeHeld        uint = 101 // another owner has the VF, address or attachment
	CodeUnable      uint = 102 // the driver does not have the setting
	CodeNotFound    uint = 103 // no such pool, PF or VF
	CodeDiffers     uint = 104 // CHECK: the attachment is not as it was made
	CodeKernel      uint = 105 // the kernel, the NIC or the ledger's disk refused
)

// These outcomes have codes in the specification: CHECK of an unknown attachment, and STATUS of
// a network that can take no ADD.
var (
	ErrUnknown     = errors.New("unknown container")
	ErrUnavailable = errors.New("unavailable")
)

var (
	errEnvironment = errors.New("invalid environment variable")
	errDiffers     = errors.New("not as it was attached")
	errUndecodable = errors.New("not a configuration")
)

// outcomes has the code of each error, and advice to its reader. The first entry that matches
// counts.
var outcomes = []struct {
	err     error
	code    uint
	details string
}{
	{config.ErrVersion, types.ErrIncompatibleCNIVersion, "set cniVersion in the network configuration"},
	{errEnvironment, types.ErrInvalidEnvironmentVariables, "the container runtime sets it; see the CNI specification, section 2"},
	{errUndecodable, types.ErrDecodingFailure, "correct the network configuration"},
	{ErrUnknown, types.ErrUnknownContainer, "the attachment is gone; delete the pod or add the attachment again"},
	{ErrUnavailable, api.CNIUnavailable, "culvert status says what is missing"},
	{errDiffers, CodeDiffers, "delete the pod or attachment and make it again; culvert vf show says what the VF looks like"},
	{vf.ErrNotReady, types.ErrTryAgainLater, "culvert status says what culvertd waits for"},
	{vf.ErrTimeout, types.ErrTryAgainLater, "the kernel was too slow; culvert events and dmesg say where it hung"},
	{context.DeadlineExceeded, types.ErrTryAgainLater, "it took longer than the runtime waits; culvert events says where"},
	{context.Canceled, types.ErrTryAgainLater, "the runtime gave up, or culvertd was stopped"},
	{vf.ErrNetnsGone, types.ErrInvalidEnvironmentVariables, "the sandbox ended while it was being set up; the runtime makes another"},
	{vf.ErrDuplicate, CodeHeld, "dmesg of the node shows the MAC address of the other machine"},
	{vf.ErrHeld, CodeHeld, "culvert vf list says who holds what"},
	{vf.ErrNothingFree, CodeNothingFree, "culvert pool list says who holds what"},
	{vf.ErrUnable, CodeUnable, "take the setting out of the network, or use a NIC whose driver has it; culvert vf show lists what it can do"},
	{vf.ErrNotFound, CodeNotFound, "culvert pool list and culvert vf list show what there is"},
	{vf.ErrInvalid, types.ErrInvalidNetworkConfig, "correct the network configuration"},
	{syscall.ENOSPC, CodeKernel, "make room in /var/lib/culvert; what was begun is finished then"},
	{syscall.EROFS, CodeKernel, "mount /var/lib/culvert writable; what was begun is finished then"},
	{syscall.EBUSY, CodeKernel, "another program works on the device: culvert doctor and dmesg may name it; the runtime tries again"},
	{syscall.ENODEV, CodeKernel, "the device went away: culvert status shows what is left, dmesg why"},
	{syscall.ENOMEM, CodeKernel, "the kernel or the NIC is out of memory: dmesg says which; fewer VFs or a restart of the NIC help"},
	{syscall.EADDRNOTAVAIL, CodeKernel, "the driver takes no such address: choose another, or let Culvert choose"},
	{syscall.EOPNOTSUPP, CodeUnable, "the driver cannot do that: culvert vf show lists what it can"},
	{syscall.EIO, CodeKernel, "the NIC or the disk fails: dmesg says more"},
}

// Failure returns the answer to an invocation that failed: the error object of the
// specification on standard output, and exit status 1.
func Failure(version string, err error) api.CNIResponse {
	e := api.CNIError{CNIVersion: version, Code: api.CNIInternal, Details: "see journalctl -u culvertd", Msg: err.Error()}
	for _, o := range outcomes {
		if errors.Is(err, o.err) {
			e.Code, e.Details = o.code, o.details
			break
		}
	}
	var theirs *types.Error // another plugin's
	if errors.As(err, &theirs) && theirs.Code != 0 && e.Code != api.CNIUnavailable {
		e.Code, e.Details = theirs.Code, theirs.Details
	}
	var keys *strictjson.Error
	if errors.As(err, &keys) && keys.OnlyUnknown() {
		e.Code, e.Details = types.ErrUnsupportedField, "take the key out of the network configuration, or correct it"
	}
	out, encodeErr := json.MarshalIndent(e, "", "    ")
	if encodeErr != nil {
		out = []byte(`{"code": 999, "msg": "encode the error"}`)
	}
	return api.CNIResponse{Stdout: append(out, '\n'), Exit: 1}
}
