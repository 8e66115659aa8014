// Command culvert-cni is the CNI plugin that container runtimes exec: a shim
// that hands the invocation to culvertd and prints what it answers. It answers
// VERSION by itself, and with a CNI error when culvertd does not answer. When
// culvertd asks, it runs another CNI plugin, since culvertd is not where the runtime
// would run one.
package main

import (
	"os"

	"github.com/culvert-net/culvert/rpc"
)

func main() {
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
