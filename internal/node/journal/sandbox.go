package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/node/journal/pages"
	"github.com/culvert-net/culvert/internal/vf"
)

// SandboxPhase is how far the networks of a pod's sandbox are set up.
type SandboxPhase string

// These are the phases. If a sandbox is Adding for longer than an ADD takes, culvertd or the
// plugin's process died in the ADD. The runtime still sends a DEL for it.
const (
	SandboxAdding   SandboxPhase = "adding"   // some plugins may have run
	SandboxAdded    SandboxPhase = "added"    // all plugins have run, and the runtime has its answer
	SandboxDeleting SandboxPhase = "deleting" // some networks may have been undone
)

// Sandbox is the record of a pod's sandbox whose networks Culvert sets up, including those of other
// projects' plugins. It has all that the plugins' DEL and CHECK need. culvertd writes it before the
// first plugin runs, and deletes it when the last one is undone. It has no VFs: these have leases.
type Sandbox struct {
	ID        string `json:"id"` // CNI container ID, the owner's UID of its leases
	Netns     string `json:"netns,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	UID       string `json:"uid,omitempty"` // the pod's

	Phase SandboxPhase `json:"phase"`
	Since time.Time    `json:"since"`

	// Args and Path are CNI_ARGS and CNI_PATH as the runtime set them.
	Args string `json:"args,omitempty"`
	Path string `json:"path,omitempty"`
	// Networks are in the order in which they are added, the default one first.
	Networks []SandboxNetwork `json:"networks"`
	// Status is the text of the pod's annotation network-status when all networks are set up.
	Status string `json:"status,omitempty"`

	// Damage is the reason why the entry cannot be trusted; then only ID is set besides.
	Damage string `json:"-"`
	// Omitted is the size of the entry in bytes if its networks were left out, since the networks
	// of many pods together would be too large. It is 0 for a complete entry.
	Omitted int `json:"-"`
}

// SandboxNetwork is one network of a sandbox.
type SandboxNetwork struct {
	// Name is the name for people: namespace/name, or the default network's name.
	Name      string `json:"name"`
	Interface string `json:"interface"`
	Default   bool   `json:"default,omitempty"`
	// Claim is namespace/name of the ResourceClaim whose configuration is the network; empty: it is of a
	// NetworkAttachmentDefinition or a file.
	Claim string `json:"claim,omitempty"`

	// These fields are from the network's configuration: its name, its version, and the
	// configuration of each plugin without the additions of the runtime.
	Network      string           `json:"network"`
	Version      string           `json:"version"`
	DisableCheck bool             `json:"disableCheck,omitempty"`
	DisableGC    bool             `json:"disableGC,omitempty"`
	Plugins      []netconf.Plugin `json:"plugins"`
	// Runtime has the values for the plugins' capabilities.
	Runtime map[string]json.RawMessage `json:"runtime,omitempty"`
	// Args has the MAC address and the addresses that the pod asks for. They are added to CNI_ARGS.
	Args string `json:"args,omitempty"`

	// Result is the answer of the network's ADD. It is nil as long as the ADD may not have run.
	Result json.RawMessage `json:"result,omitempty"`
	// DeviceInfo is the path of its device-info file.
	DeviceInfo string `json:"deviceInfo,omitempty"`
}

// PodName returns namespace/name, or the ID where the runtime knows no pods.
func (s Sandbox) PodName() string {
	if s.Pod == "" {
		return s.ID
	}
	return s.Namespace + "/" + s.Pod
}

// NetworkOf returns the name of the network with an interface. It is empty where the record has no
// such network.
func (s Sandbox) NetworkOf(in string) string {
	for _, n := range s.Networks {
		if n.Interface == in {
			return n.Name
		}
	}
	return ""
}

// Sandbox returns the record of a sandbox; vf.ErrNotFound when there is none. A record that
// cannot be read has Damage.
func (t *Tx) Sandbox(id string) (Sandbox, error) {
	stored := t.tx.Bucket(bucketSandboxes).Get([]byte(id))
	if stored == nil {
		return Sandbox{}, fmt.Errorf("ledger: sandbox %s: %w", id, vf.ErrNotFound)
	}
	s, err := decodeSandbox([]byte(id), stored)
	if err != nil {
		s = Sandbox{ID: id, Damage: err.Error()}
	}
	return s, nil
}

// SandboxIDs returns the IDs of all sandboxes. It reads no record: together they may
// have some megabytes.
func (t *Tx) SandboxIDs() (ids []string) {
	for key := range t.entriesFrom(bucketSandboxes, nil) {
		ids = append(ids, string(key))
	}
	return ids
}

// PutSandbox writes a sandbox. A change of phase sets Since. It refuses a record that
// is too large (MaxSandbox).
func (t *Tx) PutSandbox(s Sandbox) error {
	if s.ID == "" || s.Damage != "" || s.Omitted > 0 {
		return fmt.Errorf("ledger: sandbox %q: %w: it has no ID, is an outline, or is damaged (%s)", s.ID, vf.ErrInvalid, s.Damage)
	}
	if old, err := t.Sandbox(s.ID); err != nil || old.Phase != s.Phase {
		s.Since = t.now
	}
	body, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("ledger: encode sandbox %s: %w", s.ID, err)
	}
	if err := t.checkSandboxSize(s, body); err != nil {
		return err
	}
	return t.storeEntry(bucketSandboxes, []byte(s.ID), body)
}

// DeleteSandbox forgets a sandbox.
func (t *Tx) DeleteSandbox(id string) error { return t.deleteEntry(bucketSandboxes, []byte(id)) }

func decodeSandbox(key, stored []byte) (Sandbox, error) {
	s, err := openEntry[Sandbox](bucketSandboxes, key, stored)
	return checkSandbox(key, s, err)
}

// checkSandbox returns a sandbox that was decoded, with an error if it cannot be trusted.
func checkSandbox(key []byte, s Sandbox, err error) (Sandbox, error) {
	switch {
	case err != nil:
	case s.ID != string(key):
		err = fmt.Errorf("it says that it is about sandbox %s", s.ID)
	case s.Phase != SandboxAdding && s.Phase != SandboxAdded && s.Phase != SandboxDeleting:
		err = fmt.Errorf("its phase is %q, which this culvertd does not know", s.Phase)
	}
	return s, err
}

// keepSandboxes is how many bytes of sandboxes Read keeps in memory.
const keepSandboxes = 1 << 20

// decodeSandboxes returns the sandboxes, the problems of damaged ones, and the problems that
// VerifySandboxes finds in the others. A damaged sandbox has lost the configuration that other
// projects' plugins need for their DEL. decodeSandboxes returns the first keepSandboxes bytes
// whole, and outlines of the rest.
func decodeSandboxes(all entries, decode func(key, stored []byte) (Sandbox, error)) (out []Sandbox, damaged, doubts []Problem) {
	kept := 0
	for key, stored := range all {
		s, err := decode(key, stored)
		if err != nil {
			s = Sandbox{ID: string(key), Damage: err.Error()}
			damaged = append(damaged, newDamage("when it ends its VFs come back, and its default network is deleted as that is configured then; what other networks have is not",
				sandboxObject(s), "its entry is damaged: %s", err))
		}
		doubts = append(doubts, VerifySandboxes([]Sandbox{s})...)
		if kept += len(stored); kept > keepSandboxes {
			s = s.outlineOf(len(stored))
		}
		out = append(out, s)
	}
	return out, damaged, doubts
}

// outlineOf returns the sandbox without its networks. size is that of its entry.
func (s Sandbox) outlineOf(size int) Sandbox {
	return Sandbox{ID: s.ID, Netns: s.Netns, Namespace: s.Namespace, Pod: s.Pod, UID: s.UID, Phase: s.Phase, Since: s.Since, Damage: s.Damage, Omitted: size}
}

func sandboxObject(s Sandbox) string {
	if s.Pod == "" {
		return "sandbox " + s.ID
	}
	return fmt.Sprintf("sandbox %s of pod %s", s.ID, s.PodName())
}

// VerifySandboxes lists the contradictions in sandboxes. Sandboxes that culvertd writes have none
// between two transactions. A sandbox has networks: the first is the default one and no other is,
// no two have the same interface, and each has plugins. When the sandbox is Added, each network has
// a result.
func VerifySandboxes(all []Sandbox) []Problem {
	var out []Problem
	for _, s := range all {
		if s.Damage != "" {
			continue // reported already
		}
		add := func(means, format string, args ...any) {
			out = append(out, Problem{Invariant: "I8", Object: sandboxObject(s), What: fmt.Sprintf(format, args...), Means: means})
		}
		var names []string
		for i, n := range s.Networks {
			if n.Default != (i == 0) {
				add("its networks are deleted in another order than they were added", "its network %d, %s, has default %t", i, n.Name, n.Default)
			}
			if n.Interface == "" || slices.Contains(names, n.Interface) {
				add("a delete of one is taken for the other", "its network %s has interface %q, and so does another", n.Name, n.Interface)
			}
			if len(n.Plugins) == 0 {
				add("what it has is not given back", "its network %s has no plugins", n.Name)
			}
			if s.Phase == SandboxAdded && len(n.Result) == 0 {
				add("the runtime was answered that it is there", "its network %s has no result", n.Name)
			}
			names = append(names, n.Interface)
		}
		if len(s.Networks) == 0 {
			add("what it has is not given back", "it has no networks")
		}
	}
	return out
}

// rescueSandboxes keeps the sandboxes that can be read.
func (r *Rescue) rescueSandboxes(c Content) {
	var lost []string
	kept := map[string]bool{} // a page may have been read twice
	for _, s := range c.Sandboxes {
		if kept[s.ID] {
			continue
		}
		if s.Damage != "" {
			lost = append(lost, s.ID)
			continue
		}
		kept[s.ID] = true
		r.Sandboxes = append(r.Sandboxes, s)
	}
	if len(lost) > 0 {
		r.noteRepair("%d sandboxes are forgotten (%s): their VFs come back, their default networks are deleted as they are configured then", len(lost), strings.Join(lost, ", "))
	}
}

// copySandboxes copies the readable sandboxes of a file, in transactions of compactBatch bytes.
func copySandboxes(l *Ledger, source pages.Source) error {
	bodies, size := map[string][]byte{}, 0
	write := func() error {
		err := l.Update(func(tx *Tx) error {
			var errs []error
			for id, body := range bodies {
				errs = append(errs, tx.storeEntry(bucketSandboxes, []byte(id), body))
			}
			return errors.Join(errs...)
		})
		bodies, size = map[string][]byte{}, 0
		return err
	}
	for key, stored := range pages.Read(source).Items(string(bucketSandboxes)) {
		if _, err := decodeSandbox(key, stored); err != nil {
			continue // Mend reported it
		}
		body := bytes.Clone(stored[:len(stored)-sealLength])
		bodies[string(key)] = body
		if size += len(body); size > compactBatch {
			if err := write(); err != nil {
				return err
			}
		}
	}
	return write()
}
