package vf

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// PFID identifies a Physical Function across reboots, renames, changes of slot and other kernels,
// by its permanent MAC. Names and PCI addresses change; a PFID does not.
type PFID struct {
	MAC MAC
	// Port distinguishes PFs that share one MAC: on Chelsio cards pf0 to pf3, which have no ports
	// of their own. It is empty for other PFs.
	Port string
}

// ParsePFID reads what String wrote.
func ParsePFID(s string) (PFID, error) {
	mac, port, _ := strings.Cut(s, "/")
	m, err := ParseMAC(mac)
	if err == nil && m.IsZero() {
		err = fmt.Errorf("MAC address %q: want one that is not zero", mac)
	}
	if err != nil {
		return PFID{}, fmt.Errorf("PF identity %q: %w", s, err)
	}
	return PFID{MAC: m, Port: port}, nil
}

// IsZero reports whether id is unset.
func (id PFID) IsZero() bool { return id == PFID{} }

func (id PFID) String() string {
	if id.Port == "" {
		return id.MAC.String()
	}
	return id.MAC.String() + "/" + id.Port
}

// MarshalText writes the identity as String does.
func (id PFID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the output of MarshalText; the empty text is the zero value, the identity
// of a PF whose driver reports none.
func (id *PFID) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*id = PFID{}
		return nil
	}
	*id, err = ParsePFID(string(b))
	return err
}

// ID identifies a VF by its PF and its index there.
type ID struct {
	PF    PFID
	Index int
}

// ParseID reads the output of String; "#3" is a VF of a PF whose driver reports no identity.
func ParseID(s string) (ID, error) {
	at := strings.LastIndexByte(s, '#') // a port's name may contain a '#'
	n, err := strconv.Atoi(s[at+1:])
	if at < 0 || err != nil || n < 0 {
		return ID{}, fmt.Errorf("VF identity %q: want PF#index, e.g. 90:e2:ba:00:00:01#3", s)
	}
	var pf PFID
	if err := pf.UnmarshalText([]byte(s[:at])); err != nil {
		return ID{}, err
	}
	return ID{PF: pf, Index: n}, nil
}

func (id ID) String() string { return id.PF.String() + "#" + strconv.Itoa(id.Index) }

// Compare orders by PF, then by index.
func (id ID) Compare(o ID) int {
	return cmp.Or(bytes.Compare(id.PF.MAC[:], o.PF.MAC[:]), cmp.Compare(id.PF.Port, o.PF.Port), cmp.Compare(id.Index, o.Index))
}

// MarshalText writes the identity as String does.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *ID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseID(string(b))
	return err
}

// Kinds of owner.
const (
	OwnerPod       = "pod"       // a Kubernetes pod
	OwnerContainer = "container" // a container without Kubernetes
	OwnerGuest     = "vm"        // a libvirt domain
	OwnerHost      = "host"      // the host itself, by hand
	OwnerClaim     = "claim"     // a ResourceClaim whose pod does not have the VF yet, or no longer
)

// Owner is the holder of a VF. UID and Interface together distinguish attachments of one owner; a
// UID is never used again in its kind.
type Owner struct {
	Kind string `json:"kind"`
	// UID is the sandbox (CNI container ID) for pods and containers, the
	// domain UUID for VMs, the UID of the object for claims.
	UID string `json:"uid"`
	// Name is the owner's name for people: namespace/name for a pod or a claim.
	Name string `json:"name"`
	// Interface is the name the attachment has for its owner, e.g. net1.
	Interface string `json:"interface,omitempty"`
}

// IsZero reports whether the owner is unset.
func (o Owner) IsZero() bool { return o == Owner{} }

// String returns "pod default/a" or, where there is no name, "container 3f2a9c41d0b7".
func (o Owner) String() string {
	name := o.Name
	if name == "" {
		name = o.UID
		if len(name) > 12 {
			name = name[:12]
		}
	}
	return strings.TrimSpace(o.Kind + " " + name)
}
