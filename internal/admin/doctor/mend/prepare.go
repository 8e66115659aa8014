package mend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/culvert-net/culvert/internal/admin/doctor"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/kernel/survey"
)

// swapMark begins the lines of /etc/fstab that the repair has made comments.
const swapMark = "#culvert-doctor: "

// turnSwapOff turns swap off, and makes its lines in /etc/fstab comments.
func (h Host) turnSwapOff(ctx context.Context, r *api.Repair) error {
	if err := h.Run(ctx, "swapoff", "-a"); err != nil {
		return err
	}
	if left := survey.Read(survey.Root(h.Root)).Swaps; len(left) > 0 {
		return fmt.Errorf("swapoff -a succeeded, and swap is on: %s", strings.Join(left, ", "))
	}
	r.Found, r.Undo = "swap is off", "swapon -a"
	const file = "/etc/fstab"
	text, err := os.ReadFile(filepath.Join(h.Root, file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("it is off until the next boot: %w", err)
	}
	var out strings.Builder
	comments := 0
	for line := range strings.Lines(string(text)) {
		if survey.IsFstabSwap(line) {
			out.WriteString(swapMark)
			comments++
		}
		out.WriteString(line)
	}
	if comments == 0 {
		return nil
	}
	if err := h.writeFile(file, out.String()); err != nil {
		return fmt.Errorf("it is off until the next boot: %w", err)
	}
	r.Found += ", and its lines in " + file + " are comments"
	r.Undo = "sed -i 's/^" + swapMark + "//' " + file + " && swapon -a"
	return nil
}

// installPackages installs packages of the distribution.
func (h Host) installPackages(ctx context.Context, packages []string, r *api.Repair) error {
	tool := doctor.Installer(survey.Read(survey.Root(h.Root)))
	if tool == "" {
		return errors.New("there is no apt-get, dnf or zypper to install them")
	}
	if tool == "apt-get" { // which has no lists of packages on a fresh host
		if err := h.Run(ctx, tool, "update"); err != nil {
			return err
		}
	}
	if err := h.Run(ctx, append([]string{tool, "install", "-y"}, packages...)...); err != nil {
		return err
	}
	names := strings.Join(packages, " ")
	r.Found, r.Undo = tool+" has installed "+names, tool+" remove "+names
	return nil
}

// openPorts opens ports in firewalld's default zone, now and at every boot.
func (h Host) openPorts(ctx context.Context, ports []string, r *api.Repair) error {
	var undo []string
	for _, port := range ports {
		undo = append(undo, "firewall-cmd --permanent --remove-port="+port)
		if err := h.Run(ctx, "firewall-cmd", "--permanent", "--add-port="+port); err != nil {
			return err
		}
	}
	if err := h.Run(ctx, "firewall-cmd", "--reload"); err != nil {
		return err
	}
	r.Found = "firewalld's default zone opens " + strings.Join(ports, ", ")
	r.Undo = strings.Join(append(undo, "firewall-cmd --reload"), " && ")
	return nil
}
