// Command culvert-hook is what libvirt runs before it starts a guest, as
// /etc/libvirt/hooks/qemu.d/culvert (https://libvirt.org/hooks.html): it shows the
// guest's definition to culvertd, and keeps the guest from starting on a VF that
// somebody else has. Whatever else happens it succeeds: culvertd may be down, and
// libvirt ends a running guest whose hook fails.
//
// It is a program of its own since libvirtd's AppArmor profile lets it run what is
// in its folder of hooks, and nothing in /usr/local/bin.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/culvert-net/culvert/api"
	"github.com/culvert-net/culvert/rpc"
)

const (
	// maxDefinition bounds what is read from standard input, in bytes; in base64
	// it fits into one request.
	maxDefinition = 512 << 10
	// patience is how long culvertd may take. It only reads its ledger.
	patience = 5 * time.Second
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stderr, rpc.DefaultSocket))
}

// run is one invocation: GUEST OPERATION SUB-OPERATION EXTRA. libvirt logs what
// is written to stderr, and shows it to whoever starts the guest. Nothing is
// written to stdout, where some operations expect another definition.
func run(args []string, stdin io.Reader, stderr io.Writer, socket string) int {
	text, err := io.ReadAll(io.LimitReader(stdin, maxDefinition+1)) // of every operation: libvirt writes it
	if len(args) < 2 || args[1] != "prepare" {
		return 0
	}
	if err == nil && len(text) > maxDefinition {
		err = fmt.Errorf("the definition is longer than %d bytes", maxDefinition)
	}
	var answer api.GuestStartResponse
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err = rpc.Call(ctx, socket, api.MethodGuestStart, api.GuestStartRequest{Definition: text}, &answer)
	}
	if err != nil {
		fmt.Fprintf(stderr, "culvert: guest %s starts without a look at the ledger: %v\n", args[0], err)
		return 0
	}
	if answer.Refused != "" {
		fmt.Fprintln(stderr, "culvert:", answer.Refused)
		return 1
	}
	return 0
}
