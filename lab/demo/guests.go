package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/lab/demo/node"
)

// guestsYAML has a pool for guests, whose VFs never become interfaces of the
// host, and one for containers, on one wire.
const guestsYAML = `pfs:
- name: enp1s0
  vfs: 7
pools:
- name: guests
  deviceType: vfio-pci
  selectors:
    pfNames: ["enp1s0#0-1"]
- name: pods
  selectors:
    pfNames: ["enp1s0#2-6"]
`

// GuestSetup returns the setup in which libvirt probes its QEMU and looks for hooks for the first
// time. The probe takes a minute where the processor is emulated. libvirt looks for hooks only as
// it starts (its manual of hooks), so the nodes have empty ones where Culvert's will be: libvirt
// runs those without another start.
func GuestSetup() *lab.Setup {
	return &lab.Setup{
		Key: "libvirt looked at its QEMU and at empty hooks",
		Run: func(ctx context.Context, l *lab.Lab, step func(string, ...any)) error {
			step("letting libvirt look at its QEMU")
			return onAll(ctx, l, func(n node.Node, ctx context.Context) error {
				if err := n.PutEmptyHooks(ctx); err != nil {
					return err
				}
				return n.StartLibvirt(ctx)
			})
		},
	}
}

// onAll does something on all nodes of a lab at once.
func onAll(ctx context.Context, l *lab.Lab, do func(node.Node, context.Context) error) error {
	nodes, err := l.Nodes()
	if err != nil {
		return err
	}
	all := node.Of(l, len(nodes))
	for i, n := range nodes {
		all[i].Name = n.Name
	}
	return eachNode(ctx, all, func(ctx context.Context, _ int, n node.Node) error { return do(n, ctx) })
}

// UpGuests brings up a lab whose nodes run guests of their own: with libvirt,
// QEMU and a small guest, and with the Culvert of the source tree installed, its
// hook of libvirt with it. A lab that is up with guests already is left as it is.
func UpGuests(ctx context.Context, o lab.Options, source string) (*lab.Lab, error) {
	var stage string
	o.Addition = lab.Guests
	o.Prepare = func(ctx context.Context, step func(string, ...any)) (lab.Software, error) {
		parts, err := node.FindParts(ctx, source, func(s string) { step("%s", s) })
		if err == nil {
			stage, err = os.MkdirTemp("", "culvert-guests-")
		}
		if err == nil { // the folder makes Culvert's installation include its hooks of libvirt
			err = os.MkdirAll(filepath.Join(stage, "etc/libvirt"), 0o755)
		}
		if err == nil {
			err = parts.Stage(ctx, stage, guestsYAML)
		}
		return lab.Software{Setup: GuestSetup()}, err
	}
	defer func() { _ = os.RemoveAll(stage) }()
	o.Finish = func(ctx context.Context, l *lab.Lab, step func(string, ...any)) error {
		step("installing Culvert")
		return onAll(ctx, l, func(n node.Node, ctx context.Context) error { return n.Install(ctx, stage) })
	}
	l, err := lab.Up(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("nodes with guests: %w", err)
	}
	return l, nil
}
