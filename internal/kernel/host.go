package kernel

import (
	"fmt"
	"net"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// BootID returns the random identity of this boot of the host (random(4)), which distinguishes
// a reboot from a restart of the program. procRoot is "/proc" outside of tests.
func BootID(procRoot string) (string, error) {
	id, err := readLine(filepath.Join(procRoot, "sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("read the boot ID: %w", err)
	}
	return id, nil
}

// Peer is the process at the other end of a unix socket, at the time when it connected.
type Peer struct {
	PID      int // 0: it is not in this program's PID namespace
	UID, GID uint32
}

func (p Peer) String() string {
	if p.PID == 0 {
		return "a process of another PID namespace"
	}
	return fmt.Sprintf("process %d", p.PID)
}

// PeerCredentials asks the kernel for the process at the other end (unix(7), SO_PEERCRED), which
// the peer cannot forge.
func PeerCredentials(c *net.UnixConn) (Peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Peer{}, fmt.Errorf("credentials of the peer: %w", err)
	}
	var cred *unix.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) {
		cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err == nil {
		err = inner
	}
	if err != nil {
		return Peer{}, fmt.Errorf("credentials of the peer: %w", err)
	}
	return Peer{PID: int(cred.Pid), UID: cred.Uid, GID: cred.Gid}, nil
}
