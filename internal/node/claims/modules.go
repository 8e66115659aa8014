package claims

import (
	"fmt"
	"regexp"
	"strings"
)

// KernelArguments is the manager of claims of the kernel's command line.
const KernelArguments = "the kernel's command line"

// effectOfOption returns the effect of an option of a kernel module: the number of VFs of each PF
// of a driver, which old drivers have, or the models that vfio-pci takes.
func effectOfOption(module, option string) []effect {
	key, value, ok := strings.Cut(stripQuotes(option), "=")
	module, value = strings.ReplaceAll(module, "-", "_"), stripQuotes(value)
	switch {
	case !ok:
	case key == "max_vfs" || key == "num_vfs":
		return []effect{{setting: Count, driver: module, value: value}}
	case key == "ids" && (module == "vfio_pci" || module == "pci_stub"):
		return []effect{{setting: Binding, objects: padModels(strings.Split(value, ",")), value: strings.ReplaceAll(module, "_", "-")}}
	}
	return nil
}

// padModels writes the vendor and the device of models with four digits each: 1af4:41 is 1af4:0041.
func padModels(models []string) []string {
	for i, m := range models {
		if parts := strings.SplitN(m, ":", 3); len(parts) > 1 {
			models[i] = fmt.Sprintf("%04s:%04s", parts[0], parts[1])
		}
	}
	return models
}

// readModprobe reads modprobe MODULE OPTION=VALUE.
func readModprobe(w words) []effect {
	w = dropOptions(w, "-d", "-C")
	if len(w) < 2 {
		return nil
	}
	var out []effect
	module := strings.TrimSuffix(baseName(w[0][0]), ".ko")
	for _, option := range w[1:] {
		out = append(out, effectOfOption(module, option[0])...)
	}
	return out
}

// scanModprobe reads a file of modprobe.d(5): options, and the commands of install.
func (s *scanner) scanModprobe(src *source, text []byte) {
	for _, n := range joinLines(text, "#") {
		fields := strings.Fields(n.text)
		switch {
		case len(fields) < 3:
		case fields[0] == "options":
			for _, option := range fields[2:] {
				s.addEffects(src, n, effectOfOption(fields[1], option)...)
			}
		case fields[0] == "install" || fields[0] == "remove":
			s.scanLine(src, n, strings.Join(fields[2:], " "))
		}
	}
}

var moduleOption = regexp.MustCompile(`(?:^|[\s"'])([A-Za-z0-9_-]+)\.((?:max_vfs|num_vfs|ids)=[^\s"']+)`)

// scanArguments reads the kernel's command line, or a file that a boot loader's is made from.
func (s *scanner) scanArguments(src *source, text []byte) {
	for _, n := range joinLines(text, "#") {
		for _, m := range moduleOption.FindAllStringSubmatch(n.text, -1) {
			one := *src
			one.says = m[1] + "." + m[2]
			s.addEffects(&one, n, effectOfOption(m[1], m[2])...)
		}
	}
}
