// Command culvert-cni is the CNI plugin that container runtimes exec: a shim that
// hands the invocation to culvertd and prints culvertd's answer. The shim answers
// VERSION by itself, and prints a CNI error if culvertd does not answer. It also
// runs other CNI plugins for culvertd, since culvertd does not run in the
// environment of the runtime. It executes itself as the supervisor of each.
package main

import (
	"os"

	"github.com/culvert-net/culvert/internal/rpc"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == superviseCommand {
		os.Exit(supervise(os.Args[2], os.Environ()))
	}
	s := shim{
		command:     os.Getenv("CNI_COMMAND"),
		containerID: os.Getenv("CNI_CONTAINERID"),
		netns:       os.Getenv("CNI_NETNS"),
		ifName:      os.Getenv("CNI_IFNAME"),
		args:        os.Getenv("CNI_ARGS"),
		path:        os.Getenv("CNI_PATH"),
		socket:      os.Getenv("CULVERT_SOCKET"),
		stdin:       os.Stdin,
		stdout:      os.Stdout,
		environ:     os.Environ(),
	}
	if s.socket == "" {
		s.socket = rpc.DefaultSocket
	}
	info, err := os.Stdin.Stat()
	if s.command == "" && (len(os.Args) > 1 || err == nil && info.Mode()&os.ModeCharDevice != 0) {
		os.Exit(s.printHelp())
	}
	os.Exit(s.runShim())
}
