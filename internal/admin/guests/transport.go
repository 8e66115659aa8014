package guests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Transport is the way by which the memory of a guest that runs goes to another host.
type Transport string

// The transports (https://libvirt.org/migration.html).
const (
	// SSH sends it over libvirt's connection to the other libvirt, which ssh carries and
	// encrypts. It needs nothing that the rest of a migration does not need.
	SSH Transport = "ssh"
	// TLS lets QEMU send it to the other QEMU, encrypted. Both hosts need certificates.
	TLS Transport = "tls"
	// TCP lets QEMU send it to the other QEMU as it is: every host on the path can read it.
	TCP Transport = "tcp"
)

// Transports returns all transports, the default first.
func Transports() []Transport { return []Transport{SSH, TLS, TCP} }

// virshFlags returns the flags of virsh migrate. Over SSH the libvirt here connects to the other
// one by itself (--p2p), since only then it carries the memory as well (--tunnelled). libvirt 6.8
// or newer accepts a socket for that. With TLS the other host's certificate must have TLSName, and
// not the address to which QEMU connects.
func (a Send) virshFlags() []string {
	data := []string{"--migrateuri", a.To.Data}
	switch a.Transport {
	case SSH:
		return []string{"--p2p", "--tunnelled"}
	case TLS:
		return append(data, "--tls", "--tls-destination", a.TLSName)
	}
	return data
}

// suggestTransport says what may help when virsh fails.
func (a Send) suggestTransport() string {
	switch a.Transport {
	case SSH:
		return "; --transport tls or tcp does not go through ssh"
	case TLS:
		return fmt.Sprintf("; QEMU's certificates have to be on both hosts (/etc/pki/qemu), and that of the other host has to be for %s (or --tls-name)", a.TLSName)
	}
	return ""
}

// migrateGuest lets virsh migrate the guest: virsh has the part of libvirt's protocol between two
// hosts, and handles failures of either host. The source keeps its definition: virsh reports
// success also if the target has not kept one.
func (h *Host) migrateGuest(ctx context.Context, a Send) error {
	f, err := os.CreateTemp("", "culvert-*.xml")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(a.XML)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	args := append([]string{"--quiet", "migrate", "--live", "--persistent", "--persistent-xml", f.Name()}, a.virshFlags()...)
	cmd := exec.CommandContext(ctx, "virsh", append(args, a.Guest, a.To.Libvirt)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // virsh then cancels the migration
	cmd.WaitDelay = callBound
	if lock := h.locked.Load(); lock != nil { // if this process is killed, virsh goes on
		cmd.ExtraFiles = []*os.File{lock}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%w: install virsh (libvirt-clients)", err)
	}
	if err != nil {
		return fmt.Errorf("virsh %s: %w: %s%s", strings.Join(append(args[1:3:3], a.virshFlags()...), " "), err, bytes.TrimSpace(out), a.suggestTransport())
	}
	return nil
}
