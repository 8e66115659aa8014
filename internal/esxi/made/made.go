// Package made remembers which parts of an ESXi host Culvert has made or changed, and how they were
// before, so that it takes away nothing else. A virtual switch has no place for such a mark.
//
// An entry is written before the call that makes the part. When the program was cut off, the next run
// finds out by Settle whether the host has the part. Package apply writes the entries; package plan
// reads them.
package made

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/culvert-net/culvert/internal/durable"
	"github.com/culvert-net/culvert/internal/esxi/file"
	"github.com/culvert-net/culvert/internal/esxi/state"
)

// Made is all that Culvert has made on one host.
type Made struct {
	Server      string            `json:"server"`
	Host        string            `json:"host,omitempty"`
	Ports       map[string]Port   `json:"ports,omitempty"`       // by NIC
	Switches    map[string]bool   `json:"switches,omitempty"`    // by name
	Groups      map[string]string `json:"portGroups,omitempty"`  // by name: the switch
	VMs         map[string]VM     `json:"vms,omitempty"`         // by ID
	Maintenance bool              `json:"maintenance,omitempty"` // Culvert has begun it
}

// Setting is the configuration of a port.
type Setting struct {
	VFs         int  `json:"vfs"`
	Passthrough bool `json:"passthrough"`
}

// SettingOf returns the configuration of a port.
func SettingOf(p state.Port) Setting { return Setting{p.WantedVFs(), p.Passthrough} }

// Port is a port that Culvert has configured. Was is its setting before the last call, which the
// program cannot know to have reached the host.
type Port struct {
	Before Setting `json:"before"`
	Set    Setting `json:"set"`
	Was    Setting `json:"was"`
}

// VM is a virtual machine that Culvert has changed.
type VM struct {
	Name   string        `json:"name"`
	Before *state.Memory `json:"memoryBefore,omitempty"` // nil: Culvert did not change the reservation
	Uses   []Use         `json:"vfs,omitempty"`
}

// Use is a VF that Culvert has given to a virtual machine.
type Use struct {
	state.Use
	// Others has the keys of the virtual machine's VFs before. It finds the new key after the call.
	Others []int32 `json:"others,omitempty"`
}

// Read reads the entries. A missing file has none.
func Read(path string) (Made, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Made{}, nil
	}
	if err != nil {
		return Made{}, fmt.Errorf("read what Culvert has made: %w", err)
	}
	var m Made
	if err := json.Unmarshal(text, &m); err != nil {
		return Made{}, fmt.Errorf("%s, the list of what Culvert has made, is not whole: %w: restore it from a copy, or remove it; then nothing on the host counts as made by Culvert", path, err)
	}
	return m, nil
}

// Write writes the entries. Without entries it removes the file.
func (m Made) Write(path string) error {
	if m.IsEmpty() {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the list of what Culvert has made: %w", err)
		}
		return nil
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = durable.WriteFile(path, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the list of what Culvert has made: %w", err)
	}
	return nil
}

// IsEmpty reports whether there is no entry.
func (m Made) IsEmpty() bool {
	return len(m.Ports)+len(m.Switches)+len(m.Groups)+len(m.VMs) == 0 && !m.Maintenance
}

// ForgetAbsent removes the entries of virtual machines that the host does not have.
func (m *Made) ForgetAbsent(h *state.Host) {
	maps.DeleteFunc(m.VMs, func(id string, _ VM) bool { return h.FindVM(id) == nil })
}

// Clone returns a copy that further entries do not change.
func (m Made) Clone() Made {
	m.Ports, m.Switches, m.Groups, m.VMs = maps.Clone(m.Ports), maps.Clone(m.Switches), maps.Clone(m.Groups), maps.Clone(m.VMs)
	for id, vm := range m.VMs {
		vm.Uses = slices.Clone(vm.Uses)
		m.VMs[id] = vm
	}
	return m
}

// Settle removes the entries of parts that the host does not have, and finds the keys of new VFs.
func (m *Made) Settle(h *state.Host) {
	if !h.Maintenance {
		m.Maintenance = false
	}
	for name := range m.Switches {
		if h.FindSwitch(name) == nil {
			delete(m.Switches, name)
		}
	}
	for name, on := range m.Groups {
		if g := h.FindGroup(name); g == nil || g.Switch != on {
			delete(m.Groups, name)
		}
	}
	for nic, entry := range m.Ports {
		if p := h.FindPort(nic); p == nil || SettingOf(*p) == entry.Before && !p.IsPending() {
			delete(m.Ports, nic)
		}
	}
	for id, entry := range m.VMs {
		vm := h.FindVM(id)
		if vm == nil || vm.Unreadable != "" { // it may come back: it is on another host, or its datastore is away
			continue
		}
		entry.Uses = settleUses(entry.Uses, vm.Uses())
		if entry.Before != nil && *entry.Before == vm.Memory() {
			entry.Before = nil
		}
		m.VMs[id] = entry
		if len(entry.Uses) == 0 && entry.Before == nil {
			delete(m.VMs, id)
		}
	}
}

// settleUses returns the entries whose VF the virtual machine has, with its key.
func settleUses(entries []Use, has []state.Use) []Use {
	var kept []Use
	for _, e := range entries {
		i := slices.IndexFunc(has, func(u state.Use) bool {
			isTaken := slices.ContainsFunc(kept, func(k Use) bool { return k.Key == u.Key })
			if e.Key != 0 {
				return e.isStill(u)
			}
			return !isTaken && !slices.Contains(e.Others, u.Key) && e.describes(u)
		})
		if i >= 0 {
			e.Key, e.MAC, e.Others = has[i].Key, has[i].MAC, nil
			kept = append(kept, e)
		}
	}
	return kept
}

// isStill reports whether a VF is the one that the entry has found. A host gives the key of a removed
// device to a new one, so the MAC address and the PCI address count, too.
func (e Use) isStill(u state.Use) bool {
	if u.Key != e.Key || u.As != e.As {
		return false
	}
	if e.As == file.Device { // it stays when its port loses its VFs
		return (u.Port == e.Port || u.Port == "") && (e.Address == "" || e.Address == u.Address)
	}
	return u.Port == e.Port && (e.MAC == "" || e.MAC == u.MAC)
}

// describes reports whether a VF is the one that the entry announced.
func (e Use) describes(u state.Use) bool {
	if e.As != u.As || e.Port != u.Port || e.PortGroup != u.PortGroup {
		return false
	}
	if e.As == file.Device {
		return e.Address == u.Address
	}
	return e.MAC == "" || e.MAC == u.MAC
}
