// Command culvert-hook is Culvert's hook of libvirt (https://libvirt.org/hooks.html). libvirt
// runs it as /etc/libvirt/hooks/qemu.d/culvert when a guest starts and has ended. It runs it
// as network.d/culvert when it takes a device of a network for a guest and puts it back. The
// hook passes libvirt's data to culvertd, and prevents the start of a guest on a VF that the
// guest cannot have. The hook itself refuses a guest whose definition says that the guest is
// moving to or from another host: that host may run it, whether or not culvertd answers here.
// It also refuses what is too long for culvertd to read. In every other case the hook succeeds:
// culvertd may be down, and libvirt ends a running guest whose hook fails.
//
// It is a program of its own since libvirtd's AppArmor profile allows programs in the folder
// of hooks, but none in /usr/local/bin.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/guest/moving"
	"github.com/culvert-net/culvert/internal/rpc"
)

// maxDefinition bounds the definition that culvertd reads, in bytes; in base64 it fits into one
// request. maxInput bounds what the hook itself reads. libvirt's API takes no definition of more
// than 4 MiB (VIR_NET_MESSAGE_STRING_MAX).
const (
	maxDefinition = 512 << 10
	maxInput      = 16 << 20
)

// patience has the times that culvertd may be away, as during a restart, and may take for its
// answer.
type patience struct{ away, answer time.Duration }

func main() {
	if isHelpWanted(os.Args[1:], os.Stdin) {
		fmt.Printf("culvert-hook %s\n\n%s", version, about)
		return
	}
	os.Exit(runHook(os.Args[1:], os.Stdin, os.Stderr, rpc.DefaultSocket, patience{away: 5 * time.Second, answer: 30 * time.Second}))
}

// version is set by the linker.
var version = "unknown"

const about = `culvert-hook is Culvert's hook of libvirt. libvirt runs it as
/etc/libvirt/hooks/qemu.d/culvert when a guest starts and has ended, and as
network.d/culvert when it takes a device of a network for a guest. It reports that to
culvertd, and refuses the start of a guest on a VF that the guest cannot have.

libvirt runs it like this, with the guest's definition on standard input:
  virsh dumpxml db1 | /etc/libvirt/hooks/qemu.d/culvert db1 prepare begin -

culvert host install puts it in place: culvert host install --parts libvirt
By hand: culvert vm list, culvert vf list, culvert doctor --guest FILE
`

// isHelpWanted reports whether a person runs the hook by hand: libvirt gives it at least two
// arguments, and no flag before them.
func isHelpWanted(args []string, stdin *os.File) bool {
	if len(args) == 1 {
		return args[0] == "--help" || args[0] == "-h" || args[0] == "help" || args[0] == "--version"
	}
	info, err := stdin.Stat()
	return len(args) == 0 && err == nil && info.Mode()&os.ModeCharDevice != 0
}

// methodFor returns the method that reports an operation to culvertd, and the consequence when
// the report fails.
func methodFor(operation string) (method, unheard string) {
	switch operation {
	case "prepare":
		return api.MethodGuestStart, "guest %s starts without a look at the ledger"
	case "release":
		return api.MethodGuestStop, "guest %s has ended; its VFs stay its own until culvert vm detach"
	case "port-created":
		return api.MethodPortCreated, "a guest gets a device of network %s without a look at the ledger"
	case "port-deleted":
		return api.MethodPortDeleted, "a guest has given a device of network %s back; a VF stays its own until culvert vm detach"
	}
	return "", ""
}

// runHook handles one invocation: NAME OPERATION SUB-OPERATION EXTRA. libvirt logs the hook's
// stderr, and shows it to the person who starts the guest. runHook writes nothing to stdout,
// where some operations expect another definition.
func runHook(args []string, stdin io.Reader, stderr io.Writer, socket string, p patience) int {
	text, err := io.ReadAll(io.LimitReader(stdin, maxInput)) // read it for every operation, since libvirt writes it
	if len(args) < 2 {
		return 0
	}
	method, unheard := methodFor(args[1])
	if method == api.MethodGuestStart {
		if why := refuseMoving(args[0], text); why != "" {
			fmt.Fprintln(stderr, "culvert:", why)
			return 1
		}
	}
	if method == "" || err == nil && !concernsCulvert(text) {
		return 0
	}
	var answer api.GuestAnswer
	switch isLong := len(text) > maxDefinition; {
	case err != nil:
	case isLong && (method == api.MethodGuestStart || method == api.MethodPortCreated):
		answer.Refused = fmt.Sprintf("what libvirt says of %s is longer than %d bytes, so culvertd cannot tell which VFs it is about", args[0], maxDefinition)
	case isLong:
		err = fmt.Errorf("what libvirt says is longer than %d bytes", maxDefinition)
	default:
		err = callCulvertd(socket, method, text, &answer, p)
	}
	if err != nil {
		fmt.Fprintf(stderr, "culvert: "+unheard+": %v\n", args[0], err)
		return 0
	}
	if answer.Refused != "" {
		fmt.Fprintln(stderr, "culvert:", answer.Refused)
		return 1
	}
	return 0
}

// refuseMoving returns the reason why a guest must not start by its definition alone: the
// guest is moving to or from another host, or the definition cannot be read. It is empty if
// the guest may start.
func refuseMoving(guest string, definition []byte) string {
	m, err := moving.Read(definition)
	if err != nil {
		return fmt.Sprintf("guest %s may be on its way to another host: its definition cannot be read: %v", guest, err)
	}
	return m.Refusal(guest)
}

// concernsCulvert reports whether culvertd has to know of a guest or port: it has a device of
// the host, directly, as a disk of type nvme, or through a network of Culvert's. A text that the hook did not read to its
// end may have one.
func concernsCulvert(text []byte) bool {
	has := func(word string) bool { return bytes.Contains(text, []byte(word)) }
	return len(text) == maxInput || has("hostdev") || has("nvme") || has("culvert-")
}

// callCulvertd sends culvertd a report. While culvertd is away, it repeats the report for some
// time; culvertd does the work of a repeated report once.
func callCulvertd(socket, method string, text []byte, answer *api.GuestAnswer, p patience) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.answer)
	defer cancel()
	for away := time.Now(); ; time.Sleep(p.away / 20) {
		err := rpc.Call(ctx, socket, method, api.GuestReport{XML: text}, answer)
		if !errors.Is(err, rpc.ErrNoDaemon) || time.Since(away) > p.away {
			return err
		}
	}
}
