package kernel

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// maxArguments bounds how much of a process's arguments is read: those of a guest with hundreds of
// devices have some 30 KiB.
const maxArguments = 128 << 10

// readGuest returns the guest that a process runs, by its arguments; "" if they name none.
func (k *Kernel) readGuest(pid string) string {
	f, err := os.Open(filepath.Join(k.proc, pid, "cmdline"))
	if err != nil { // the process has ended
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxArguments))
	if err != nil {
		return ""
	}
	return parseGuest(strings.Split(string(text), "\x00"))
}

// parseGuest returns the guest that QEMU's arguments name: "web", or "100 web" if they also have the
// number of a guest of Proxmox VE. QEMU takes -name NAME, -name guest=NAME and --name, with further
// keys after a comma, and a comma of the name itself twice (qemu(1)). QEMU of Proxmox VE also has -id
// (qemu-server, PVE::QemuServer, config_to_command).
func parseGuest(argv []string) string {
	name, number := "", ""
	for i, arg := range argv[:max(len(argv)-1, 0)] {
		switch value := argv[i+1]; {
		case arg == "-name" || arg == "--name":
			name = guestName(value)
		case (arg == "-id" || arg == "--id") && isNumber(value):
			number = value
		}
	}
	return excerpt.Line(strings.TrimSpace(number + " " + name))
}

// guestName returns the name of a value of -name.
func guestName(value string) string {
	const comma = "\x00" // no argument has it
	keys := strings.Split(strings.ReplaceAll(value, ",,", comma), ",")
	name := keys[0]
	if i := slices.IndexFunc(keys, func(key string) bool { return strings.HasPrefix(key, "guest=") }); i >= 0 {
		name = strings.TrimPrefix(keys[i], "guest=")
	} else if strings.Contains(name, "=") { // another key, and no name
		return ""
	}
	return strings.ReplaceAll(name, comma, ",")
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
