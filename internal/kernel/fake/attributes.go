package fake

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/culvert-net/culvert/internal/vf"
)

// altnames is the attribute with the alternative name of a netdevice. No other netdevice of the
// same netns can have that name.
const altnames = "altnames"

// sandboxHas is a name that is taken in every netns of a pod.
const sandboxHas = "eth0"

// shownByLink and shownByTools are a netdevice's attributes besides the fields of vf.Link, with the
// values that its driver gives it. Every read shows those of shownByLink. Only a read of one VF on
// the host shows those of shownByTools. No read shows those of shownNowhere, since culvertd does
// not read them (docs/failures.md). All survive a move and end with the netdevice.
var (
	shownByLink = map[string]string{
		"flags": "multicast", "txqlen": "1000", "ifalias": "", altnames: "", "group": "0", "gso_max_segs": "65535", "xdp": "", "master": "",
	}
	shownByTools = map[string]string{
		"features": "all", "rings": "256", "channels": "1", "coalesce": "3", "rss": "even", "rules": "0", "msglevel": "7", "tcx": "",
		"rule_list": "", "rss_contexts": "", "queue_coalesce": "3", "rps_cpus": "0", "rps_flow_cnt": "0",
		vf.XPSCPUs: "", vf.XPSQueues: "0", "tx_maxrate": "0", "byte_queue_limits": "max",
	}
	shownNowhere = map[string]string{"napi": "", "rx_buf_len": "2048", "cqe_mode": "eqe", "devlink": ""}
)

// AttributeNames returns the attributes that SetAttribute knows and that a read of a VF shows.
func AttributeNames() []string {
	return slices.Sorted(maps.Keys(shownAttributes()))
}

// UnreadAttributeNames returns the attributes that SetAttribute knows and no read shows.
func UnreadAttributeNames() []string {
	return slices.Sorted(maps.Keys(shownNowhere))
}

func shownAttributes() map[string]string {
	all := maps.Clone(shownByLink)
	maps.Copy(all, shownByTools)
	return all
}

// newAttributes returns the attributes of a new netdevice. Its driver chooses the CPUs of
// its queues anew each time.
func newAttributes(index int) map[string]string {
	all := shownAttributes()
	maps.Copy(all, shownNowhere)
	all[vf.XPSCPUs] = fmt.Sprintf("%x", index)
	return all
}

// SetNewAttribute sets an attribute that netdevices have from their next bind on, as another
// version of the driver or a rule of udev for new interfaces does.
func (k *Kernel) SetNewAttribute(name, value string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.newer == nil {
		k.newer = map[string]string{}
	}
	k.newer[name] = value
}

// SetAttribute sets an attribute of a VF's netdevice, as its owner does with CAP_NET_ADMIN.
func (k *Kernel) SetAttribute(a vf.PCIAddr, name, value string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.notifyWatchers()
	return k.onVF(a, func(f *function) error {
		if f.Link == nil {
			return fmt.Errorf("VF %s has no netdevice: %w", a, vf.ErrNotFound)
		}
		if _, ok := f.attributes[name]; !ok {
			return fmt.Errorf("attribute %s: %w", name, vf.ErrUnable)
		}
		if name == altnames && k.findNamed(f.Link.Netns, value) != nil {
			return syscall.EEXIST
		}
		f.setAttribute(name, value)
		return nil
	})
}

func (f *function) setAttribute(name, value string) {
	f.attributes, f.text = maps.Clone(f.attributes), [2]vf.Attributes{}
	f.attributes[name] = value
}

// shownAttributes returns the attributes that a read shows. whole is set for a read of one VF on
// the host.
func (f *function) shownAttributes(whole bool) vf.Attributes {
	text := &f.text[0]
	if whole {
		text = &f.text[1]
	}
	if *text == "" {
		*text = f.describeAttributes(whole)
	}
	return *text
}

func (f *function) describeAttributes(whole bool) vf.Attributes {
	out := map[string]string{}
	for name, value := range f.attributes {
		_, always := shownByLink[name]
		_, never := shownNowhere[name]
		if always || whole && !never {
			out[name] = value
		}
	}
	return vf.NewAttributes(out)
}

// ChangedAttributes lists the attributes of a VF's netdevice that are not as its driver
// makes them, wherever the netdevice is.
func (k *Kernel) ChangedAttributes(a vf.PCIAddr) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, f, err := k.findVF(a)
	if err != nil {
		return ""
	}
	return f.describeChanges()
}

func (f *function) describeChanges() string {
	var b strings.Builder
	if f.Link == nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(f.made)) {
		if have := f.attributes[name]; have != f.made[name] {
			fmt.Fprintf(&b, " %s %q", name, have)
		}
	}
	return b.String()
}

// hasName reports whether a netdevice of a netns has a name, as its own or as its alternative name.
func (f *function) hasName(netns, name string) bool {
	return f.Link != nil && f.Link.Netns == netns && name != "" && (f.Link.Name == name || f.attributes[altnames] == name)
}

// altnameTaken reports whether the alternative name of a netdevice is taken in a netns,
// which then refuses it (__dev_change_net_namespace).
func (k *Kernel) altnameTaken(f *function, netns string) bool {
	name := f.attributes[altnames]
	if name == "" {
		return false
	}
	other := k.findNamed(netns, name)
	return netns != "" && name == sandboxHas || other != nil && other != f
}
