package claims

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// place is a folder or a file in which people or packages set VFs up.
type place struct {
	dirs     []string // a file in an earlier one hides those of the same name in the others
	suffixes []string
	files    []string
	manager  string
	programs bool // the kernel starts the files: only those that begin as a script of a shell count
	scan     func(*scanner, *source, []byte)
}

// places are read in this order.
var places = []place{
	{dirs: rulesDirs, suffixes: []string{".rules"}, manager: Udev, scan: (*scanner).scanRules},
	{dirs: unitDirs, suffixes: []string{".service"}, manager: "systemd", scan: (*scanner).scanUnit},
	{dirs: []string{"etc/tmpfiles.d", "run/tmpfiles.d", "usr/local/lib/tmpfiles.d", "usr/lib/tmpfiles.d", "lib/tmpfiles.d"}, suffixes: []string{".conf"}, manager: "systemd-tmpfiles", scan: (*scanner).scanTmpfiles},
	{dirs: []string{"etc/sysfs.d"}, suffixes: []string{".conf"}, files: []string{"etc/sysfs.conf"}, manager: "sysfsutils", scan: (*scanner).scanSysfsConf},
	{dirs: []string{"etc/cron.d"}, files: []string{"etc/crontab"}, manager: "cron", scan: (*scanner).scanCron},
	{dirs: []string{"var/spool/cron/crontabs", "var/spool/cron/tabs", "var/spool/cron"}, manager: "cron", scan: (*scanner).scanCrontab},
	{dirs: []string{"etc/modprobe.d", "run/modprobe.d", "usr/local/lib/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d"}, suffixes: []string{".conf"}, manager: "modprobe", scan: (*scanner).scanModprobe},
	{dirs: []string{"boot/loader/entries", "etc/default/grub.d"}, files: []string{"proc/cmdline", "etc/default/grub", "etc/kernel/cmdline"}, manager: KernelArguments, scan: (*scanner).scanArguments},
	{dirs: []string{"etc/driverctl.d"}, manager: "driverctl", scan: (*scanner).scanDriverctl},
	{files: osNetConfigFiles, manager: osNetConfig, scan: (*scanner).scanOSNetConfig},
	preseedPlace(incus, "etc/incus"), preseedPlace(incus, "var/lib/incus"),
	preseedPlace(lxd, "etc/lxd"), preseedPlace(lxd, "var/lib/lxd"), preseedPlace(lxd, "var/snap/lxd/common/lxd"),
	{dirs: []string{"etc/nmstate"}, suffixes: []string{".yml", ".yaml"}, manager: "nmstate", scan: (*scanner).scanNMState},
	{files: []string{"etc/sriov-netplan-shim/interfaces.yaml"}, manager: "sriov-netplan-shim", scan: (*scanner).scanShim},
	{dirs: []string{"etc/cloud/cloud.cfg.d"}, suffixes: []string{".cfg"}, files: []string{"etc/cloud/cloud.cfg", "var/lib/cloud/instance/cloud-config.txt"}, manager: cloudInit, scan: (*scanner).scanCloudConfig},
	{dirs: []string{"etc/libvirt/qemu/networks"}, suffixes: []string{".xml"}, manager: "libvirt", scan: (*scanner).scanLibvirtNetwork},
	scriptPlace(cloudInit, "var/lib/cloud/scripts/per-boot"),
	scriptPlace("the initramfs", "etc/initramfs-tools/scripts/init-top", "etc/initramfs-tools/scripts/init-premount", "etc/initramfs-tools/scripts/init-bottom"),
	scriptPlace("a Proxmox hook", "var/lib/vz/snippets"),
	scriptPlace(NetworkManager, "etc/NetworkManager/dispatcher.d", "usr/lib/NetworkManager/dispatcher.d"),
	scriptPlace(NetworkManager, "etc/NetworkManager/dispatcher.d/pre-up.d", "usr/lib/NetworkManager/dispatcher.d/pre-up.d"),
	scriptPlace(NetworkManager, "etc/NetworkManager/dispatcher.d/pre-down.d", "usr/lib/NetworkManager/dispatcher.d/pre-down.d"),
	scriptPlace(NetworkManager, "etc/NetworkManager/dispatcher.d/no-wait.d", "usr/lib/NetworkManager/dispatcher.d/no-wait.d"),
	scriptPlace("networkd-dispatcher", "etc/networkd-dispatcher/routable.d"), scriptPlace("networkd-dispatcher", "etc/networkd-dispatcher/configured.d"),
	scriptPlace("networkd-dispatcher", "etc/networkd-dispatcher/configuring.d"), scriptPlace("networkd-dispatcher", "etc/networkd-dispatcher/carrier.d"),
	scriptPlace("networkd-dispatcher", "etc/networkd-dispatcher/degraded.d"), scriptPlace("networkd-dispatcher", "etc/networkd-dispatcher/no-carrier.d"),
	scriptPlace("networkd-dispatcher", "etc/networkd-dispatcher/dormant.d"), scriptPlace("networkd-dispatcher", "etc/networkd-dispatcher/off.d"),
	scriptPlace(Ifupdown, "etc/network/if-pre-up.d"), scriptPlace(Ifupdown, "etc/network/if-up.d"),
	scriptPlace(Ifupdown, "etc/network/if-down.d"), scriptPlace(Ifupdown, "etc/network/if-post-down.d"),
	scriptPlace("cron", "etc/cron.hourly"), scriptPlace("cron", "etc/cron.daily"), scriptPlace("cron", "etc/cron.weekly"), scriptPlace("cron", "etc/cron.monthly"),
	scriptPlace("an init script", "etc/init.d"), scriptPlace("an init script", "etc/local.d"),
	{files: []string{"etc/dpdk/interfaces"}, manager: "dpdk", scan: (*scanner).scanDPDK},
	scriptPlace("an init script", "etc/sysconfig/modules"),
	scriptPlace("wicked", "etc/sysconfig/network/scripts"),
	scriptPlace("systemd", "etc/systemd/system-sleep"), scriptPlace("systemd", "usr/lib/systemd/system-sleep"),
	scriptPlace("a libvirt hook", "etc/libvirt/hooks"), scriptPlace("a libvirt hook", "etc/libvirt/hooks/qemu.d"), scriptPlace("a libvirt hook", "etc/libvirt/hooks/network.d"),
	{
		files:   []string{"etc/rc.local", "etc/rc.d/rc.local", "etc/rc.d/boot.local", "sbin/ifup-local", "sbin/ifup-pre-local", "sbin/ifdown-local", "sbin/ifdown-pre-local"},
		manager: ByHand, scan: (*scanner).scanScript,
	},
}

// scriptPlace is a folder of scripts.
func scriptPlace(manager string, dirs ...string) place {
	return place{dirs: dirs, manager: manager, programs: true, scan: (*scanner).scanScript}
}

// preseedPlace is a folder in which people keep the input of incus admin init or lxd init.
func preseedPlace(manager, dir string) place {
	return place{dirs: []string{dir}, suffixes: []string{".yaml", ".yml"}, manager: manager, scan: (*scanner).scanInstance}
}

var (
	rulesDirs = []string{"etc/udev/rules.d", "run/udev/rules.d", "usr/local/lib/udev/rules.d", "usr/lib/udev/rules.d", "lib/udev/rules.d"}
	unitDirs  = []string{"etc/systemd/system", "run/systemd/system", "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"}
)

// readByHand reads all places.
func readByHand(l *loader) []handLine {
	s := &scanner{l: l, seen: map[string]bool{}}
	for _, p := range places {
		suffixes := p.suffixes
		if suffixes == nil {
			suffixes = []string{""}
		}
		for _, f := range append(l.listLayered(p.dirs, suffixes...), p.files...) {
			src := &source{file: "/" + f, manager: p.manager, vars: variables{}}
			if p.programs {
				p.scan(s, src, l.readScript(f, true))
			} else {
				p.scan(s, src, l.readText(f))
			}
		}
	}
	s.readDropIns()
	s.scanInstances()
	return s.lines
}

// readDropIns reads the drop-ins of services.
func (s *scanner) readDropIns() {
	for _, dir := range s.l.listLayered(unitDirs, ".service.d") {
		for _, f := range s.l.listFiles(dir, ".conf") {
			s.scanUnit(&source{file: "/" + f, manager: "systemd", vars: variables{}}, s.l.readText(f))
		}
	}
}

// scanUnit reads the commands and variables of a unit (systemd.service(5)). A unit that is a template
// is read for each of its instances that is enabled.
func (s *scanner) scanUnit(src *source, text []byte) {
	name, isTemplate := strings.CutSuffix(path.Base(src.file), "@.service")
	if !isTemplate {
		s.scanUnitLines(src, text)
		return
	}
	for _, instance := range s.findInstances(name) {
		one := *src
		one.vars = maps.Clone(src.vars)
		replaced := strings.NewReplacer("%i", instance, "%I", instance).Replace(string(text[:min(len(text), maxLine)]))
		s.scanUnitLines(&one, []byte(replaced))
	}
}

// findInstances returns the enabled instances of a template, or the specifier if there is none.
func (s *scanner) findInstances(template string) []string {
	if s.instances == nil {
		s.instances = s.listInstances()
	}
	if found := s.instances[template]; len(found) > 0 {
		return found
	}
	return []string{"%i"}
}

// listInstances lists the enabled instances of all templates.
func (s *scanner) listInstances() map[string][]string {
	out := map[string][]string{}
	for _, dir := range s.l.listLayered(unitDirs, ".wants", ".requires") {
		for _, f := range s.l.listFiles(dir, ".service") {
			template, instance, ok := strings.Cut(strings.TrimSuffix(path.Base(f), ".service"), "@")
			if !ok || instance == "" || len(out[template]) >= maxValues {
				continue
			}
			s.l.noteStamp(f)
			out[template] = append(out[template], strings.ReplaceAll(instance, `\x2d`, "-"))
		}
	}
	return out
}

var workingDirectory = regexp.MustCompile(`(?m)^WorkingDirectory\s*=\s*-?(/\S*)`)

func (s *scanner) scanUnitLines(src *source, text []byte) {
	if folder := workingDirectory.FindSubmatch(text); folder != nil {
		src.folders = []string{string(folder[1])}
	}
	for _, n := range joinLines(text, "#;") {
		key, value, ok := strings.Cut(n.text, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch {
		case !ok:
		case key == "Environment":
			for _, c := range splitCommands(value) {
				src.vars.takeAssignments(c.words)
			}
		case key == "EnvironmentFile":
			s.readSourced(src, strings.TrimPrefix(value, "-"))
		case strings.HasPrefix(key, "Exec"):
			s.scanLine(src, n, strings.NewReplacer("$$", "$", "%%", "%").Replace(strings.TrimLeft(value, "@-:+!|")))
		}
	}
}

// scanTmpfiles reads the writes of tmpfiles.d(5): TYPE PATH MODE USER GROUP AGE ARGUMENT.
func (s *scanner) scanTmpfiles(src *source, text []byte) {
	for _, n := range joinLines(text, "#") {
		fields := strings.Fields(n.text)
		if len(fields) > 6 && strings.HasPrefix(fields[0], "w") {
			if e, ok := effectOfWrite(fields[1], stripQuotes(strings.Join(fields[6:], " "))); ok {
				s.addEffects(src, n, e)
			}
		}
	}
}

// scanSysfsConf reads the lines PATH = VALUE of sysfsutils. Lines that set a mode or an owner have
// more words.
func (s *scanner) scanSysfsConf(src *source, text []byte) {
	for _, n := range joinLines(text, "#;") {
		file, value, ok := strings.Cut(n.text, "=")
		if e, sets := effectOfWrite(strings.TrimSpace(file), strings.TrimSpace(value)); ok && sets && len(strings.Fields(file)) == 1 {
			s.addEffects(src, n, e)
		}
	}
}

// scanCron reads a crontab with users: five fields or a word such as @reboot, the user, the command.
func (s *scanner) scanCron(src *source, text []byte) { s.scanCronLines(src, text, 1) }

// scanCrontab reads the crontab of a user.
func (s *scanner) scanCrontab(src *source, text []byte) { s.scanCronLines(src, text, 0) }

func (s *scanner) scanCronLines(src *source, text []byte, users int) {
	for _, n := range joinLines(text, "#") {
		fields := strings.Fields(n.text)
		before := 5 + users
		switch {
		case src.vars.takeAssignment(fields[0]):
			continue
		case strings.HasPrefix(fields[0], "@"):
			before = 1 + users
		}
		s.scanLine(src, n, cutFields(n.text, before))
	}
}

// cutFields returns a text without its first fields.
func cutFields(text string, fields int) string {
	for range fields {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		i := strings.IndexFunc(text, unicode.IsSpace)
		if i < 0 {
			return ""
		}
		text = strings.TrimLeftFunc(text[i:], unicode.IsSpace)
	}
	return text
}

// scanDriverctl reads an override that driverctl(8) keeps: the name of the file is [BUS-]DEVICE.
func (s *scanner) scanDriverctl(src *source, text []byte) {
	lines := joinLines(text, "#")
	if len(lines) == 0 {
		return
	}
	device := strings.TrimPrefix(path.Base(src.file), "pci-")
	src.says = "driver_override " + lines[0].text
	s.addEffects(src, lines[0], effect{setting: Binding, objects: []string{device}, value: lines[0].text})
}

var pfOfNetwork = regexp.MustCompile(`<pf\s+dev\s*=\s*["']([^"'<>]+)["']`)

// scanLibvirtNetwork reads a network whose guests get VFs of a PF. libvirt chooses the VFs, and sets
// their MAC addresses and VLANs.
func (s *scanner) scanLibvirtNetwork(src *source, text []byte) {
	for _, n := range joinLines(text, "") {
		for _, m := range pfOfNetwork.FindAllStringSubmatch(n.text, -1) {
			s.addEffects(src, n, effect{setting: VFSettings, objects: m[1:]})
		}
	}
}

// scanDPDK reads the lines BUS DEVICE DRIVER of Debian's package dpdk.
func (s *scanner) scanDPDK(src *source, text []byte) {
	for _, n := range joinLines(text, "#") {
		if fields := strings.Fields(n.text); len(fields) > 2 {
			s.addEffects(src, n, effect{setting: Binding, objects: fields[1:2], value: fields[2]})
		}
	}
}

// isShellScript reports whether a file begins as a script of a shell.
func isShellScript(text []byte) bool {
	first, _, _ := strings.Cut(string(text[:min(len(text), 256)]), "\n")
	if !strings.HasPrefix(first, "#!") {
		return false
	}
	return slices.ContainsFunc(strings.Fields(first[2:]), func(w string) bool { return slices.Contains(shells, baseName(w)) })
}
