// Package place installs the CNI plugin in the folder in which container runtimes look for it, and
// removes it. Package install calls it, and so does culvertd in a DaemonSet, which brings the
// plugin with it.
package place

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/culvert-net/culvert/internal/durable"
	"github.com/culvert-net/culvert/internal/network/netconf"
)

const (
	// plugin is the name of Culvert's plugin: the type of its networks.
	plugin = netconf.TypeCulvert
	// alias is the other type that Culvert serves. Another plugin may have had this name; it is
	// kept under the name in the constant before.
	alias  = netconf.TypeSRIOV
	before = alias + ".before-" + plugin
)

// Install copies program into dir, a folder of CNI plugins that exists, and
// makes it the plugin of both types. Each file is replaced in one step, so a
// runtime that runs it meanwhile finds the old one or the new one. It is
// idempotent.
func Install(program, dir string) error {
	if err := copyTo(program, filepath.Join(dir, plugin)); err != nil {
		return fmt.Errorf("install the CNI plugin: %w", err)
	}
	other := filepath.Join(dir, alias)
	if isOurs(other) {
		return nil
	}
	if err := renameFile(other, filepath.Join(dir, before)); err != nil {
		return fmt.Errorf("install the CNI plugin: keep the plugin that is called %s: %w", alias, err)
	}
	if err := durable.Symlink(plugin, other); err != nil {
		return fmt.Errorf("install the CNI plugin: %w", err)
	}
	return nil
}

// Remove removes the plugin, and restores the plugin that Install replaced. It is idempotent.
func Remove(dir string) error {
	other := filepath.Join(dir, alias)
	if isOurs(other) {
		if err := removeFile(other); err != nil {
			return fmt.Errorf("remove the CNI plugin: %w", err)
		}
		if err := renameFile(filepath.Join(dir, before), other); err != nil {
			return fmt.Errorf("remove the CNI plugin: put back the one before it: %w", err)
		}
	}
	own := filepath.Join(dir, plugin)
	if err := errors.Join(removeFile(own), durable.RemoveTemporary(own), durable.RemoveTemporary(other)); err != nil {
		return fmt.Errorf("remove the CNI plugin: %w", err)
	}
	return nil
}

// isOurs reports whether a plugin is a link to Culvert's.
func isOurs(path string) bool {
	to, err := os.Readlink(path)
	return err == nil && to == plugin
}

// copyTo leaves a file alone that has the content already.
func copyTo(from, to string) error {
	body, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if there, err := os.ReadFile(to); err == nil && bytes.Equal(body, there) {
		return os.Chmod(to, 0o755)
	}
	return durable.WriteFile(to, body, 0o755)
}

// renameFile renames a file that may not be there.
func renameFile(from, to string) error { return unlessAbsent(durable.Rename(from, to)) }

// removeFile removes a file that may not be there.
func removeFile(path string) error { return unlessAbsent(os.Remove(path)) }

func unlessAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
