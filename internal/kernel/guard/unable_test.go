package guard

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/culvert-net/culvert/internal/kernel/rtnl"
	"github.com/culvert-net/culvert/internal/vf"
)

// refuses returns the answers of a kernel that refuses each request.
func refuses(err error) query {
	return func(rtnl.Request, func([]byte) error) error { return err }
}

// A kernel without nftables cannot have a guard. The error of Set says so and what to do. Read and
// Remove find no guard, so that the undo of the attach succeeds. Other errors do not prove that
// there is none.
func TestKernelWithoutNftables(t *testing.T) {
	for _, tt := range []struct {
		answer error
		unable bool
	}{
		{&rtnl.KernelError{Errno: unix.EINVAL}, true},
		{fmt.Errorf("open a netlink socket: %w", unix.EPROTONOSUPPORT), true},
		{&rtnl.KernelError{Errno: unix.EPERM}, false},
	} {
		err := setTable(refuses(tt.answer), tableOf(podPCI), device, guardOf(vf.GuardIP))
		if err == nil || errors.Is(err, vf.ErrUnable) != tt.unable || tt.unable && !strings.Contains(err.Error(), "this kernel has no nftables (module nf_tables)") {
			t.Errorf("Set: %v, unable: %t", err, tt.unable)
		}
		if err := removeTable(refuses(tt.answer), tableOf(podPCI)); (err == nil) != tt.unable {
			t.Errorf("Remove: %v, unable: %t", err, tt.unable)
		}
		if g, err := readTable(refuses(tt.answer), tableOf(podPCI)); (err == nil) != tt.unable || g.String() != "none" {
			t.Errorf("Read: %s, %v, unable: %t", g, err, tt.unable)
		}
	}
}

// A kernel without the hook refuses the transaction by EOPNOTSUPP, or by ENOENT where it has no
// chains at interfaces at all. If the kernel had the guard, ENOENT has another cause.
func TestKernelWithoutTheHook(t *testing.T) {
	for _, tt := range []struct {
		err           error
		there, unable bool
	}{
		{os.NewSyscallError("recvmsg", unix.EOPNOTSUPP), false, true},
		{os.NewSyscallError("recvmsg", unix.EOPNOTSUPP), true, true},
		{os.NewSyscallError("recvmsg", unix.ENOENT), false, true},
		{os.NewSyscallError("recvmsg", unix.ENOENT), true, false},
		{os.NewSyscallError("recvmsg", unix.EBUSY), false, false},
	} {
		err := explainWrite(tt.err, tt.there)
		if !errors.Is(err, tt.err) || errors.Is(err, vf.ErrUnable) != tt.unable || tt.unable && !strings.Contains(err.Error(), "Linux 5.16") {
			t.Errorf("%v, guard was there: %t: %v", tt.err, tt.there, err)
		}
	}
	if err := explainWrite(nil, false); err != nil {
		t.Error(err)
	}
}

// A guard that is replaced while it is read, or a list that changes meanwhile, is no proof that the
// guard was altered.
func TestAlteredIsConfirmed(t *testing.T) {
	whole, failed := guardOf(vf.GuardIP), errors.New("no answer")
	for _, tt := range []struct {
		altered int // number of first reads that find the guard altered
		then    error
		want    string
		reads   int
	}{
		{0, nil, whole.String(), 1},
		{1, nil, whole.String(), 2},
		{readTries - 1, nil, whole.String(), readTries},
		{readTries, nil, "altered", readTries},
		{1, failed, "none", 2},
		{1, rtnl.ErrInterrupted, "none", readTries},
	} {
		reads := 0
		g, err := confirmAltered(func() (vf.Guard, error) {
			if reads++; reads <= tt.altered {
				return vf.Guard{Altered: true}, nil
			}
			if tt.then != nil {
				return vf.Guard{}, tt.then
			}
			return whole, nil
		})
		if g.String() != tt.want || reads != tt.reads || !errors.Is(err, tt.then) {
			t.Errorf("%d reads find it altered: %s, %v, after %d reads", tt.altered, g, err, reads)
		}
	}
}
