package claims

import (
	"regexp"
	"slices"
	"strings"
)

// effect is something that a command or a line of a file sets.
type effect struct {
	setting Setting
	// objects name the PF or the VF: paths, names, PCI addresses, models as VENDOR:DEVICE.
	objects []string
	value   string
	vfs     []int
	// driver is the PF driver that a module's option is for.
	driver string
}

// cleanObjects takes the backslashes off the objects, which a unit has before the colons of an address,
// and takes the VFs that the objects name by a path.
func (e *effect) cleanObjects() {
	e.objects = slices.Clone(e.objects)
	for i, o := range e.objects {
		e.objects[i] = strings.ReplaceAll(o, `\`, "")
		if m := vfOfPath.FindStringSubmatch(o); m != nil {
			e.vfs = append(e.vfs, parseIndexes(m[1:])...)
		}
	}
	slices.Sort(e.vfs)
	e.vfs = slices.Compact(e.vfs)
}

// sysfsKeys are the files of sysfs that set something of a VF. The first match of driver, if there
// is one, names a driver.
var sysfsKeys = []struct {
	path    *regexp.Regexp
	setting Setting
}{
	{regexp.MustCompile(`(?:^|[/}])sriov_numvfs$`), Count},
	{regexp.MustCompile("^(?:\\$\\(|`).*\\bsriov_numvfs\\b.*[)`]$"), Count}, // $(find /sys -name sriov_numvfs | grep PF)
	{regexp.MustCompile(`(?:^|/)driver_override$`), Binding},
	{regexp.MustCompile(`(?:^|/)drivers/([^/]+)/(?:bind|new_id)$`), Binding},
	{regexp.MustCompile(`(?:^|/)(?:driver|drivers/[^/]+)/unbind$`), Binding},
	{regexp.MustCompile(`(?:^|/)drivers_probe$`), Binding},
	// drivers of Mellanox's and Intel's own packages
	{regexp.MustCompile(`/sriov/[^/]+/(?:mac|vlan|trunk|trust|spoofcheck|spoofchk|link_state|max_tx_rate|min_tx_rate|mac_list|promisc)$`), VFSettings},
	{regexp.MustCompile(`/compat/devlink/mode$`), Switch},
}

var (
	vfOfPath   = regexp.MustCompile(`/(?:virtfn([0-9]{1,5})\b|sriov/([0-9]{1,5})/)`)
	boundModel = regexp.MustCompile(`^(?:0x)?([0-9a-fA-F]{4})[ :](?:0x)?([0-9a-fA-F]{4})\b`)
)

// effectOfWrite returns the effect of a write of value to a file; false if the file sets nothing of
// a VF.
func effectOfWrite(file, value string) (effect, bool) {
	for _, k := range sysfsKeys {
		m := k.path.FindStringSubmatch(file)
		if m == nil {
			continue
		}
		e := effect{setting: k.setting, objects: []string{file}, value: value}
		switch {
		case k.setting != Binding || strings.HasSuffix(file, "driver_override"):
		case boundModel.MatchString(value): // new_id
			model := boundModel.FindStringSubmatch(value)
			e.objects, e.value = []string{model[1] + ":" + model[2]}, ""
		default:
			e.objects, e.value = append(e.objects, value), ""
		}
		if len(m) > 1 && m[1] != "" {
			e.value = m[1]
		}
		return e, true
	}
	return effect{}, false
}

// parseIndexes returns the indexes among texts.
func parseIndexes(texts []string) (out []int) {
	for _, t := range texts {
		if n, ok := parseIndex(t); ok && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// words are the words of a command, each with the texts that it may stand for.
type words [][]string

// firstTexts returns the first text of each word.
func (w words) firstTexts() []string {
	out := make([]string, len(w))
	for i := range w {
		out[i] = w[i][0]
	}
	return out
}

// textAt returns the first text of a word; empty if there is none.
func (w words) textAt(i int) string {
	if i >= len(w) {
		return ""
	}
	return w[i][0]
}

// form is a program that sets something of a VF, with the function that reads its arguments.
type form struct {
	programs []string
	read     func(arguments words) []effect
}

// forms are the programs by which people and packages set up VFs.
var forms = []form{
	{[]string{"ip"}, readIPLink},
	{[]string{"devlink", "mlxdevm"}, readDevlink},
	{[]string{"driverctl"}, readDriverctl},
	{[]string{"dpdk-devbind.py", "dpdk-devbind", "dpdk_nic_bind.py"}, readDevbind},
	{[]string{"virsh"}, readVirsh},
	{[]string{"nmcli"}, readNmcli},
	{[]string{"modprobe", "insmod"}, readModprobe},
	{[]string{"os-net-config-sriov"}, readOSNetConfigSRIOV},
	{[]string{"incus", "lxc"}, readIncus},
}

// isShort reports whether a word is a keyword of iproute2 or its beginning.
func isShort(word, keyword string) bool { return word != "" && strings.HasPrefix(keyword, word) }

// dropOptions takes the options before the first other word off.
func dropOptions(w words, withValue ...string) words {
	for len(w) > 0 && strings.HasPrefix(w[0][0], "-") {
		if slices.Contains(withValue, w[0][0]) && len(w) > 1 {
			w = w[1:]
		}
		w = w[1:]
	}
	return w
}

// readIPLink reads ip link set PF vf N KEY VALUE (ip-link(8)).
func readIPLink(w words) []effect {
	w = dropOptions(w, "-n", "-netns", "-b", "-batch")
	if len(w) < 5 || !isShort(w[0][0], "link") || !isShort(w[1][0], "set") && !isShort(w[1][0], "change") {
		return nil
	}
	w = w[2:]
	names := w.firstTexts()
	at := slices.Index(names, "vf")
	if at < 0 || at+2 >= len(w) {
		return nil // without a setting
	}
	e := effect{setting: VFSettings, objects: w[0]}
	if dev := slices.Index(names, "dev"); dev >= 0 && dev+1 < len(w) {
		e.objects = w[dev+1]
	}
	var indexes []string
	for i := at; i+1 < len(w); i++ {
		if names[i] == "vf" {
			indexes = append(indexes, w[i+1]...)
		}
	}
	e.vfs = parseIndexes(indexes)
	return []effect{e}
}

// readDevlink reads devlink dev eswitch set pci/ADDRESS mode MODE and devlink port function set
// (devlink-dev(8), devlink-port(8)).
func readDevlink(w words) []effect {
	w = dropOptions(w)
	names := w.firstTexts()
	switch {
	case len(w) > 5 && isShort(names[0], "dev") && isShort(names[1], "eswitch") && names[2] == "set":
		if at := slices.Index(names, "mode"); at > 0 && at+1 < len(w) {
			return []effect{{setting: Switch, objects: w[3], value: names[at+1]}}
		}
	case len(w) > 4 && isShort(names[0], "port") && isShort(names[1], "function") && slices.Contains(names[2:4], "set"):
		return []effect{{setting: VFSettings, objects: slices.Concat(w[3:]...)}}
	}
	return nil
}

// readDriverctl reads driverctl set-override DEVICE DRIVER (driverctl(8)).
func readDriverctl(w words) []effect {
	w = dropOptions(w, "-b", "--bus")
	switch {
	case len(w) > 2 && w[0][0] == "set-override":
		return []effect{{setting: Binding, objects: w[1], value: w[2][0]}}
	case len(w) > 1 && w[0][0] == "unset-override":
		return []effect{{setting: Binding, objects: w[1]}}
	}
	return nil
}

// readDevbind reads dpdk-devbind.py --bind=DRIVER DEVICE... and --unbind.
func readDevbind(w words) []effect {
	e, found := effect{setting: Binding}, false
	for i := 0; i < len(w); i++ {
		option := w[i][0]
		driver, ok := strings.CutPrefix(option, "--bind=")
		switch {
		case ok:
			e.value, found = driver, true
		case (option == "-b" || option == "--bind") && i+1 < len(w):
			i++
			e.value, found = w[i][0], true
		case option == "-u" || option == "--unbind":
			found = true
		default:
			e.objects = append(e.objects, w[i]...)
		}
	}
	if !found {
		return nil
	}
	return []effect{e}
}

// readVirsh reads virsh nodedev-detach pci_0000_01_10_0, which binds a function to vfio-pci.
func readVirsh(w words) []effect {
	w = dropOptions(w, "-c", "--connect")
	if len(w) < 2 || w[0][0] != "nodedev-detach" && w[0][0] != "nodedev-dettach" && w[0][0] != "nodedev-reattach" {
		return nil
	}
	e := effect{setting: Binding}
	if w[0][0] != "nodedev-reattach" {
		e.value = "vfio-pci"
	}
	for _, texts := range w[1:] {
		for _, t := range texts {
			e.objects = append(e.objects, addressOfNodedev(t))
		}
	}
	return []effect{e}
}

var nodedev = regexp.MustCompile(`^pci_([0-9a-f]{4})_([0-9a-f]{2})_([0-9a-f]{2})_([0-7])$`)

// addressOfNodedev returns the PCI address of libvirt's name of a device, or the name.
func addressOfNodedev(name string) string { return nodedev.ReplaceAllString(name, "$1:$2:$3.$4") }

// readNmcli reads nmcli connection modify NAME sriov.total-vfs N, sriov.vfs and sriov.eswitch-mode
// (nm-settings-nmcli(5)).
func readNmcli(w words) []effect {
	var out []effect
	names := w.firstTexts()
	for i, name := range names {
		value := ""
		if i+1 < len(w) {
			value = names[i+1]
		}
		switch strings.TrimLeft(name, "+-") {
		case "sriov.total-vfs":
			out = append(out, effect{setting: Count, objects: names, value: value})
		case "sriov.vfs":
			out = append(out, effect{setting: VFSettings, objects: names})
		case "sriov.eswitch-mode":
			out = append(out, effect{setting: Switch, objects: names, value: value})
		}
	}
	return out
}

// readOSNetConfigSRIOV reads os-net-config-sriov -n PF:N, which TripleO's udev rules run.
func readOSNetConfigSRIOV(w words) []effect {
	var out []effect
	for i := 0; i+1 < len(w); i++ {
		if w[i][0] != "-n" && w[i][0] != "--numvfs" {
			continue
		}
		for _, t := range w[i+1] {
			if pf, n, ok := strings.Cut(t, ":"); ok {
				out = append(out, effect{setting: Count, objects: []string{pf}, value: n})
			}
		}
	}
	return out
}

// readIncus reads incus config device add NAME eth0 nic nictype=sriov parent=PF, the same for a
// profile, and incus network create NAME --type=sriov parent=PF.
func readIncus(w words) []effect {
	names := w.firstTexts()
	if !slices.Contains(names, "nictype=sriov") && !slices.Contains(names, "--type=sriov") {
		return nil
	}
	for i, name := range names {
		if strings.HasPrefix(name, "parent=") {
			return effectsOfParent(w[i])
		}
	}
	return nil
}
