package node

import (
	"context"
)

// Attachment is one interface of a network namespace, as a runtime names it.
type Attachment struct {
	Network   string // name of a configuration in Dir
	Dir       string // folder of the node with CNI configurations
	Netns     string // name of the network namespace
	Interface string
	Args      string // CNI_ARGS
	Abilities string // CAP_ARGS: runtimeConfig as JSON
}

// CNI runs cnitool, a CNI runtime for the command line: command is add, check,
// del, gc or status. It returns the result that was printed.
func (n Node) CNI(ctx context.Context, command string, a Attachment) ([]byte, error) {
	argv := []string{
		"env", "CNI_PATH=/opt/cni/bin", "NETCONFPATH=" + a.Dir, "CNI_IFNAME=" + a.Interface, "CNI_ARGS=" + a.Args, "CAP_ARGS=" + a.Abilities,
		"/opt/cni/bin/cnitool", command, a.Network, Netns(a.Netns),
	}
	return n.runWithInput(ctx, nil, "cnitool "+command+" "+a.Network+" "+a.Netns, argv)
}
