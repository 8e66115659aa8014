package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/culvert-net/culvert/internal/admin/cli"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/node/status/pick"
	"github.com/culvert-net/culvert/internal/node/status/text"
	"github.com/culvert-net/culvert/internal/rpc"
	"github.com/culvert-net/culvert/internal/vf"
)

func newVMCommand(n *node) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "vm",
		Aliases: []string{"guest"},
		Short:   "Give VFs to virtual machines of libvirt, and take them back",
		Long: `A guest gets a VF of a pool as a pod does, from the same ledger. A VF has one
owner, and a request to a pool without free VFs is refused with the owners' names.

culvertd sets the MAC address, VLAN, spoof check, trust, rates and link state on
the PF, where the guest cannot change them. It binds the VF to vfio-pci, and reads
all that back. culvert vm attach puts the VF into the guest and its definition;
culvert vm xml prints the definition with the VF in it, and changes no guest.`,
		Example: `  culvert vm attach db1 --pool fast --vlan 100
  culvert vm list
  culvert vm detach db1
  culvert vm migrate db1 root@host2`,
	}
	return cli.Group(cmd, newVMAttachCommand(n), newVMDetachCommand(n), newVMMigrateCommand(n), newVMXMLCommand(n), newVMListCommand(n), newVMShowCommand(n))
}

// These are the forms of output of vm xml.
const (
	printDefinition = "definition"
	printDevice     = "device"
	printNetwork    = "network"
)

func newVMXMLCommand(n *node) *cobra.Command {
	req := api.GuestXMLRequest{}
	part := printDefinition
	cmd := &cobra.Command{
		Use:   "xml [FILE]",
		Short: "Give a VF to a guest, and print its definition with the VF in it",
		Long: `Reads the definition of a guest, as virsh dumpxml prints it, from FILE or standard
input. It gives the guest a free VF of the pool, and prints the definition with
the VF in it, for virsh define. Run again, it prints the same VF again.

--way selects how the definition passes the VF:

  interface  <interface type='hostdev'>; libvirt sets MAC address and VLAN, too
  hostdev    <hostdev>, a PCI device like any other
  network    <interface type='network'> over a network that has this VF alone;
             --print network prints that network, for virsh net-define

--print device prints the device alone, for virsh attach-device.

Settings that libvirt's elements cannot express go into the definition's
<metadata>. For a device that the definition already has, without --pool and
settings, it takes those of the definition.

With --os windows, notes on standard error say which driver the VF needs there,
and what else Windows needs in the definition. They are from public documents.

The VF is reserved for the guest until the guest is shut down, until culvert vm
detach, or until the host is rebooted. A guest that starts gets the VFs that its
definition names again, if they are free. --max-tx-rate limits what the guest
sends, not what it receives.`,
		Example: `  virsh dumpxml --inactive db1 | culvert vm xml --pool fast >new.xml
  culvert vm xml --pool fast --vlan 100 --max-tx-rate 1000 db1.xml
  culvert vm xml --pool fast --os windows win1.xml >new.xml
  culvert vm xml --pool fast --way hostdev --print device db1.xml >vf.xml`,
		Args: cobra.MaximumNArgs(1),
	}
	settings := addRequest(cmd, &req, "interface", "hostdev", "network")
	cli.AddChoice(cmd, &req.OS, "os", "the guest's system; for windows, notes on standard error say what it needs", "windows", "linux")
	cli.AddChoice(cmd, &part, "print", "the part of the XML; network needs --way network", printDefinition, printDevice, printNetwork)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if part == printNetwork && req.Way != "network" {
			return fmt.Errorf("--print %s needs --way network: --way is %s", part, req.Way)
		}
		if req.Spec, err = settings.specOf(cmd); err != nil {
			return err
		}
		if req.Definition, err = readDefinition(cmd, args); err != nil {
			return err
		}
		var out api.GuestXML
		if err := rpc.Call(cmd.Context(), n.socket, api.MethodGuestXML, req, &out); err != nil {
			return err
		}
		return printGuestXML(cmd, out, part)
	}
	return cmd
}

// printGuestXML prints the requested form of the XML, and notes about the guest to standard error.
func printGuestXML(cmd *cobra.Command, out api.GuestXML, part string) error {
	if len(out.Notes) > 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "For Windows (from public documents; not run here):")
	}
	for _, note := range out.Notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "- "+excerpt.Clean(note))
	}
	_, err := io.WriteString(cmd.OutOrStdout(), map[string]string{printDefinition: out.Definition, printDevice: out.Device, printNetwork: out.Network}[part])
	return err
}

// addRequest adds the flags that select the VF of a guest and the way in which
// the guest gets it.
func addRequest(cmd *cobra.Command, req *api.GuestXMLRequest, ways ...string) *settings {
	f := cmd.Flags()
	f.StringVar(&req.Pool, "pool", "", "the pool, as prefix/name or name; the only one when not given")
	f.StringVar(&req.Device, "device", "net1", "name of the VF in the guest's definition; another name for each VF of a guest")
	req.Way = ways[0]
	cli.AddChoice(cmd, &req.Way, "way", "the element by which the definition names the VF", ways...)
	f.StringVar(&req.Failover, "failover", "", "alias of the guest's virtio interface for which the VF is the fast path")
	f.StringVar(&req.Apart, "apart", "", "name of another device of the guest, on whose PF the VF must not be")
	return addSettings(cmd)
}

func readDefinition(cmd *cobra.Command, args []string) (string, error) {
	name := "-"
	if len(args) > 0 {
		name = args[0]
	}
	content, err := cli.ReadFile(cmd, name)
	return string(content), err
}

// settings has the flags for the settings that the PF holds for a VF.
type settings struct {
	mac, vlanProto, linkState string
	switches                  map[vf.Setting]*string
	vlan                      uint16
	vlanQoS                   uint8
	minTxRate, maxTxRate      uint32
}

func addSettings(cmd *cobra.Command) *settings {
	s := &settings{switches: map[vf.Setting]*string{}}
	f := cmd.Flags()
	f.StringVar(&s.mac, "mac", "", "MAC address; the VF's own when not given")
	cli.AddCount(cmd, &s.vlan, "vlan", 0, 4094, "VLAN, 1 to 4094; 0 for none")
	cli.AddCount(cmd, &s.vlanQoS, "vlan-qos", 0, 7, "priority of the VLAN, 0 to 7")
	cli.AddChoice(cmd, &s.vlanProto, "vlan-proto", "protocol of the VLAN tag", "802.1q", "802.1ad")
	for _, name := range vf.Switches() {
		if (&vf.Spec{}).Switch(name) != nil {
			s.switches[name] = new(string)
			cli.AddChoice(cmd, s.switches[name], string(name), "the PF's setting "+string(name)+" for the VF", "on", "off")
		}
	}
	cli.AddChoice(cmd, &s.linkState, "link-state", "link that the guest sees", "auto", "enable", "disable")
	cli.AddRate(cmd, &s.minTxRate, "min-tx-rate", "rate that the guest can send at least")
	cli.AddRate(cmd, &s.maxTxRate, "max-tx-rate", "rate that the guest sends at most; it receives without a limit")
	return s
}

// specOf returns a Spec of the flags that were given.
func (s *settings) specOf(cmd *cobra.Command) (spec vf.Spec, err error) {
	given := cmd.Flags().Changed
	if given("mac") {
		mac, err := vf.ParseUnicastMAC(s.mac)
		if err != nil {
			return spec, fmt.Errorf("--mac: %w", err)
		}
		spec.MAC = &mac
	}
	if spec.VLAN, err = s.vlanOf(given); err != nil {
		return spec, err
	}
	for flag, word := range s.switches {
		if !given(string(flag)) {
			continue
		}
		on := *word == "on"
		*spec.Switch(flag) = &on
	}
	if given("link-state") {
		state, err := vf.ParseLinkState(s.linkState)
		if err != nil {
			return spec, fmt.Errorf("--link-state %w", err)
		}
		spec.LinkState = &state
	}
	if given("min-tx-rate") {
		spec.MinTxRate = &s.minTxRate
	}
	if given("max-tx-rate") {
		spec.MaxTxRate = &s.maxTxRate
	}
	for _, m := range spec.Mistakes() {
		return spec, fmt.Errorf("--%s %s: %s", m.Setting.Flag(), m.Value, m.Want)
	}
	return spec, nil
}

func (s *settings) vlanOf(given func(string) bool) (*vf.VLAN, error) {
	v := vf.VLAN{ID: s.vlan, QoS: s.vlanQoS, Proto: vf.Dot1Q}
	if given("vlan-proto") {
		var err error
		if v.Proto, err = vf.ParseVLANProto(s.vlanProto); err != nil {
			return nil, fmt.Errorf("--vlan-proto %w", err)
		}
	}
	switch {
	case !given("vlan") && !given("vlan-qos") && !given("vlan-proto"):
		return nil, nil
	case v.ID == 0:
		return nil, fmt.Errorf("--vlan 0: want 1 to %d", vf.MaxVLAN)
	}
	return &v, nil
}

func newVMListCommand(n *node) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the guests that have VFs",
		Long: `Lists the VFs of guests, guest by guest. A ! after the phase marks a VF that
differs from its guest's lease; culvert vm show explains it.`,
		Example: `  culvert vm list
  culvert vm list -o json | jq -r '.[].owner.name'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	out := addOutput(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		st, err := n.readStatus(cmd.Context())
		if err != nil {
			return err
		}
		vfs := pick.Guests(st)
		return out.writeValue(cmd, vfs, func(o text.Options) string { return text.Guests(vfs, o) })
	}
	return cmd
}

func newVMShowCommand(n *node) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show GUEST",
		Short:   "Show everything about the VFs of a guest",
		Long:    `Shows each VF of a guest, named by its name or UUID, as culvert vf show does.`,
		Example: `  culvert vm show db1`,
		Args:    cobra.ExactArgs(1),
	}
	out := addOutput(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		st, err := n.readStatus(cmd.Context())
		if err != nil {
			return err
		}
		vfs := pick.Guest(st, args[0])
		if len(vfs) == 0 {
			return fmt.Errorf("guest %q: %w among those that have VFs: culvert vm list shows them", args[0], vf.ErrNotFound)
		}
		return out.writeValue(cmd, vfs, func(o text.Options) string { return showAll(vfs, st, o) })
	}
	return cmd
}
