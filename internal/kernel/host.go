package kernel

import (
	"fmt"
	"net"
	"os/user"
	"path/filepath"
	"strconv"

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

// noLogin is the login UID of a process that no login began (audit, AUDIT_UID_UNSET).
const noLogin = "4294967295"

// NameUser names the user that the process runs as, and the user who logged in where that is another one,
// as with sudo: "root, logged in as alice". procRoot is where the process has its folder. A user
// without a name on this host, or in culvertd's container, is "user 1000".
func (p Peer) NameUser(procRoot string) string {
	uid := strconv.FormatUint(uint64(p.UID), 10)
	name := lookUpUser(uid)
	if p.PID == 0 {
		return name
	}
	login, err := readLine(filepath.Join(procRoot, strconv.Itoa(p.PID), "loginuid"))
	if err == nil && login != uid && login != noLogin {
		name += ", logged in as " + lookUpUser(login)
	}
	return name
}

func lookUpUser(uid string) string {
	u, err := user.LookupId(uid)
	if err != nil {
		return "user " + uid
	}
	return u.Username
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
