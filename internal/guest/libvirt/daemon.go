package libvirt

import (
	"os"
	"path/filepath"
	"slices"
)

// pidFiles are the files in which libvirt's daemons that serve Sockets write their process IDs.
var pidFiles = []string{"run/libvirtd.pid", "run/virtqemud.pid"}

// Runs reports whether a daemon of libvirt runs on the host with that root folder. Dialing a daemon
// that does not run could start it, where systemd listens on its socket.
func Runs(root string) bool {
	return slices.ContainsFunc(pidFiles, func(file string) bool {
		_, err := os.Stat(filepath.Join(root, file))
		return err == nil
	})
}
