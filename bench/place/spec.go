package place

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/suggest"
	"github.com/culvert-net/culvert/internal/vf"
)

// Kind is the kind of machine that a place is on.
type Kind string

// The kinds of place that can be written as text. A cluster's pods are made by
// [Cluster].
const (
	Host Kind = "host" // this machine
	SSH  Kind = "ssh"  // a machine that the program ssh reaches
	Lab  Kind = "lab"  // a node of a running lab
)

// Spec is a network namespace of a machine, as a person wrote it.
type Spec struct {
	Kind Kind
	// Machine is the name for ssh, or the lab and node as "LAB/NODE"; it is empty for this host.
	Machine string
	// Netns is the path of the network namespace there; empty for the machine's own.
	Netns string
	// VM is a virtual machine that runs there, and By the command, for sh on that machine, whose
	// input and output are a shell's in it.
	VM, By string
	// VF is the VF of an ESXi host that the machine has, as "HOST/PORT#INDEX". The machine is a virtual
	// machine that is reached by ssh, and cannot see it.
	VF string
	// PCI is the PCI address of a VF there that DPDK is to drive, without the kernel.
	PCI string
}

// Host returns the place of the machine that a place's virtual machine runs on.
func (s Spec) Host() Spec { return Spec{Kind: s.Kind, Machine: s.Machine} }

// Forms are the ways to write a Spec, for help texts.
const Forms = `host                     this host's own network
netns:NAME               a network namespace of this host, or its path
pid:N                    the network namespace of process N, a container's
ssh:USER@HOST            another host, by the program ssh
lab:LAB/NODE             a node of a running lab
  ,netns=NAME  ,pid=N    after ssh: and lab: the network namespace there
  ,vf=HOST/PORT#INDEX    after ssh: the VF of an ESXi host that this virtual
                         machine has: vf=esxi01/vmnic2#0
  ,pci=ADDRESS           after host, ssh: and lab: a VF there at vfio-pci, that
                         DPDK drives, for m15: pci=0000:01:10.0
  ,vm=NAME,by=COMMAND    after host, ssh: and lab: the guest NAME there, where
                         COMMAND gives a shell: by=ssh root@NAME sh`

// words has the first words that a Spec may have.
var words = []string{"host", "netns", "pid", "ssh", "lab"}

// Parse reads one of the Forms.
func Parse(text string) (Spec, error) {
	place, options, more := strings.Cut(text, ",")
	kind, where, _ := strings.Cut(place, ":")
	s := Spec{Machine: where}
	var err error
	switch kind {
	case "host":
		s.Kind = Host
		if place != "host" {
			err = errAfterHost
		}
	case "netns", "pid":
		s.Kind, s.Machine = Host, ""
		if s.Netns, err = netnsPath(kind, where); err == nil && more {
			err = fmt.Errorf("%q is too much", options)
		}
		return s, wrong(text, err)
	case "ssh", "lab":
		s.Kind = Kind(kind)
		err = checkMachine(s)
	default:
		err = fmt.Errorf("it begins with none of %s%s", strings.Join(words, ", "), suggest.DidYouMean(kind, words))
	}
	if err == nil && more {
		err = s.setOption(options)
	}
	return s, wrong(text, err)
}

// setOption reads the option after the machine.
func (s *Spec) setOption(text string) (err error) {
	key, value, _ := strings.Cut(text, "=")
	if key == "vf" && s.Kind == SSH {
		s.VF = value
		_, _, err = s.OutsideVF()
		return err
	}
	if key == "pci" {
		pci, err := vf.ParsePCIAddr(value)
		s.PCI = pci.String()
		return err
	}
	if key != "vm" {
		if s.Kind == Host {
			return errAfterHost
		}
		s.Netns, err = netnsPath(key, value)
		return err
	}
	name, rest, _ := strings.Cut(value, ",")
	command, ok := strings.CutPrefix(rest, "by=")
	if name == "" || strings.ContainsAny(name, "/ \t\n") {
		return fmt.Errorf("%q names no virtual machine", name)
	}
	if !ok || strings.TrimSpace(command) == "" {
		return fmt.Errorf("after vm=%s follows by=COMMAND, which gives a shell in it: by=ssh root@ADDRESS sh", name)
	}
	s.VM, s.By = name, command
	return nil
}

// OutsideVF returns the port of the VF that Spec.VF names, as "HOST/PORT", and the VF's index.
func (s Spec) OutsideVF() (port string, index int, err error) {
	port, number, _ := strings.Cut(s.VF, "#")
	host, nic, _ := strings.Cut(port, "/")
	if index, err = strconv.Atoi(number); err != nil || index < 0 || host == "" || nic == "" || strings.ContainsAny(port, ", \t\n") || strings.Contains(nic, "/") {
		return "", 0, fmt.Errorf("%q is not HOST/PORT#INDEX, such as esxi01/vmnic2#0 (culvert esxi status has the VFs)", s.VF)
	}
	return port, index, nil
}

var errAfterHost = errors.New(`nothing but ,vm=NAME and ,pci=ADDRESS may follow "host"`)

func wrong(text string, err error) error {
	if err != nil {
		return fmt.Errorf("place %q: %w; the ways to write one:\n%s", text, err, Forms)
	}
	return nil
}

func checkMachine(s Spec) error {
	if s.Machine == "" || strings.HasPrefix(s.Machine, "-") || strings.ContainsAny(s.Machine, " \t\n") {
		return fmt.Errorf("%q names no machine", s.Machine)
	}
	name, node, ok := strings.Cut(s.Machine, "/")
	if s.Kind == Lab && (!ok || name == "" || node == "") {
		return fmt.Errorf("it is not LAB/NODE (culvert lab status shows what there is)")
	}
	return nil
}

// netnsPath returns the path at which a network namespace is mounted or shown (ip-netns(8)).
func netnsPath(key, value string) (string, error) {
	switch key {
	case "netns":
		if strings.HasPrefix(value, "/") {
			return value, nil
		}
		if value == "" || value == "." || value == ".." || strings.ContainsAny(value, "/,\x00\n") {
			return "", fmt.Errorf("%q is no name of a network namespace", value)
		}
		return "/run/netns/" + value, nil
	case "pid":
		n, err := strconv.Atoi(value)
		if err != nil || n <= 0 {
			return "", fmt.Errorf("%q is no process id", value)
		}
		return fmt.Sprintf("/proc/%d/ns/net", n), nil
	}
	return "", fmt.Errorf("%q is not netns=NAME, pid=N, vm=NAME, pci=ADDRESS or, after ssh:, vf=HOST/PORT#INDEX%s", key, suggest.DidYouMean(key, []string{"netns", "pid", "vm", "pci"}))
}

// String returns the name of the place for messages.
func (s Spec) String() string {
	name := string(s.Kind)
	if s.Machine != "" {
		name += ":" + s.Machine
	}
	if s.Netns != "" {
		name += ",netns=" + strings.TrimPrefix(s.Netns, "/run/netns/")
	}
	if s.PCI != "" {
		name += ",pci=" + s.PCI
	}
	if s.VF != "" {
		name += ",vf=" + s.VF
	}
	if s.VM != "" {
		name += ",vm=" + s.VM + ",by=" + s.By
	}
	return name
}
