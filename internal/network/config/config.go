package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/network/strictjson"
	"github.com/culvert-net/culvert/internal/vf"
)

// Config is a plugin configuration as the runtime hands it over (CNI specification, section 3,
// "deriving request configuration"): the network's own settings and the runtime's additions.
type Config struct {
	Version string
	Name    string // of the network
	Type    string

	DisableCheck, DisableGC bool
	// Lenient: unknown keys are warnings.
	Lenient bool

	// Pool and VF restrict the choice of the VF. If both are zero, package alloc chooses it.
	Pool string
	VF   vf.PCIAddr
	// Segment is the segment that the VF must be on; empty: any.
	Segment vf.Segment
	// Bond is the bond that the interface is; nil for one VF. VFs are its VFs, if they are named.
	Bond *vf.Bond
	VFs  []vf.PCIAddr
	// Spec has the settings of the VF; Interface, Addresses, Routes and Driver
	// come later.
	Spec vf.Spec
	IPAM ipam.Config
	// Section is the key ipam as it is written, where IPAM is delegated.
	Section json.RawMessage
	DNS     ipam.DNS

	// MAC and IPs are the addresses that the runtime asks for; they override those of the network.
	// ArgMACs and ArgIPs are the addresses that args.cni asks for.
	MAC         *vf.MAC
	IPs, ArgIPs []string
	ArgMACs     []vf.MAC
	// Ranges is runtimeConfig.ipRanges, for ipam.Config.AddRanges.
	Ranges json.RawMessage

	// Prev is the result of the plugin before this one in a chain (ADD) or of
	// the whole chain (CHECK), as version 1.1.0; nil where there is none.
	Prev *current.Result
	// Valid are the attachments that GC keeps; nil, unlike an empty list, means that the runtime
	// passed none.
	Valid []vf.Owner

	// Warnings lists accepted settings that may not have the effect that the network's author
	// expects. Only networks of type sriov have them.
	Warnings []string
}

// configKeys are the keys of a configuration. logLevel and logFile are accepted
// and ignored: the daemon logs to the journal. pciBusID is what Multus adds
// beside deviceID.
var configKeys = []string{
	"cniVersion", "cniVersions", "name", "type", "strict", "disableCheck", "disableGC", "prevResult", "capabilities", "runtimeConfig", "args", "dns", "ipam",
	"pool", "segment", "deviceID", "deviceIDs", "pciBusID", "vlan", "vlanQoS", "vlanProto", "mac", "spoofchk", "trust", "link_state", "min_tx_rate", "max_tx_rate", "mtu", "guard", "guardAllow", "bond",
	"logLevel", "logFile",
}

// ErrVersion means that Culvert does not serve a version of the CNI specification.
var ErrVersion = errors.New("not served")

// Parse reads a configuration. The error lists everything that is wrong
// with it and wraps vf.ErrInvalid; for a version that is not served it wraps
// ErrVersion.
func Parse(raw []byte) (Config, error) { return parse(raw, nil) }

// parse parses a plugin in a list like Parse, and gives it the list's name and version;
// list is nil if the runtime has put both into the configuration.
func parse(raw []byte, list *netconf.List) (Config, error) {
	o, err := openConfig(raw)
	if err != nil {
		return Config{}, err
	}
	o.Known(append(reservedKeys(o), configKeys...)...)
	c := Config{Version: cmp.Or(o.String("cniVersion"), netconf.DefaultVersion), Name: o.String("name"), Type: o.String("type")}
	if list != nil {
		c.Version, c.Name = list.Version, list.Name
	}
	if !o.Failed("cniVersion") && !slices.Contains(api.CNIVersions(), c.Version) {
		return Config{}, fmt.Errorf("cniVersion %s: %w; want one of %s", excerpt.Quote(c.Version), ErrVersion, strings.Join(api.CNIVersions(), ", "))
	}
	c.readIdentity(o)
	c.readDevice(o)
	c.readBond(o)
	c.readSettings(o)
	c.readRuntime(o)
	c.readAttachments(o)
	c.DNS = ipam.ParseDNS(o.Object("dns"))
	c.Prev = prevResult(o, c.Version)
	reader := ipam.Reader{Lenient: o.IsLenient(), TakesRanges: o.Object("capabilities").Bool("ipRanges")}
	c.Lenient = reader.Lenient
	if c.IPAM, err = reader.Parse(o.Raw("ipam")); c.IPAM.IsDelegated() {
		c.Section = o.Raw("ipam")
	}
	c.checkGuard(o, err)
	c.Warnings = slices.Concat(o.Warnings(), c.IPAM.Warnings)
	return c, joinErrors(o.Err(), err)
}

// openConfig reads a configuration of type sriov as the SR-IOV CNI plugin reads it, with
// encoding/json, unless it says "strict": true. All others are read strictly.
func openConfig(raw []byte) (*strictjson.Object, error) {
	o, err := strictjson.ParseLenient(raw, "")
	if err != nil {
		return nil, err
	}
	o.Known(configKeys...)
	if o.String("type") == netconf.TypeSRIOV && !o.Bool("strict") {
		return strictjson.ParseLenient(raw, "")
	}
	return strictjson.Parse(raw, "")
}

// joinErrors makes one *strictjson.Error of those of the configuration and of its
// ipam section.
func joinErrors(errs ...error) error {
	var all strictjson.Error
	for _, err := range errs {
		switch e := err.(type) { //nolint:errorlint // made a few lines above, not wrapped
		case nil:
		case *strictjson.Error:
			all.Problems = append(all.Problems, e.Problems...)
		default:
			return err
		}
	}
	if len(all.Problems) == 0 {
		return nil
	}
	return &all
}

// reservedKeys returns the keys of o that the specification keeps for runtimes.
func reservedKeys(o *strictjson.Object) []string {
	var out []string
	for _, k := range o.Keys() {
		if strings.HasPrefix(k, "cni.dev/") {
			out = append(out, k)
		}
	}
	return out
}

func (c *Config) readIdentity(o *strictjson.Object) {
	if !IsName(c.Name) {
		o.Fail("name", "want the network's name: %s, at most %d", strings.TrimPrefix(WantName, "want "), LongestName)
	}
	if !o.Failed("type") && !netconf.IsOwnType(c.Type) {
		o.Fail("type", "want %s or %s", netconf.TypeCulvert, netconf.TypeSRIOV)
	}
	c.DisableCheck, c.DisableGC = o.BoolText("disableCheck"), o.BoolText("disableGC")
	if o.Has("strict") && !o.Bool("strict") && c.Type != netconf.TypeSRIOV {
		o.Fail("strict", "a network of type %s is always read strictly; take the key out", c.Type)
	}
	o.String("logLevel")
	o.String("logFile")
}

// readDevice reads the keys that restrict the choice of the VF.
func (c *Config) readDevice(o *strictjson.Object) {
	c.Pool = o.String("pool")
	prefix, bare, qualified := strings.Cut(c.Pool, "/")
	if c.Pool != "" && (!IsName(prefix) || qualified && !IsName(bare)) {
		o.Fail("pool", "want name or prefix/name, e.g. intel.com/intel_sriov_netdevice")
	}
	c.Segment, _ = strictjson.Text(o, "segment", vf.ParseSegment)
	o.Object("args")
	in := o.Object("runtimeConfig")
	for _, from := range []struct {
		o   *strictjson.Object
		key string
	}{{o, "deviceID"}, {o, "pciBusID"}, {in, "deviceID"}} {
		pci, ok := strictjson.Text(from.o, from.key, vf.ParsePCIAddr)
		if !ok {
			continue
		}
		if !c.VF.IsZero() && c.VF != pci {
			from.o.Fail(from.key, "another device than deviceID %s; want one", c.VF)
		}
		c.VF = pci
	}
}

// readSettings reads the settings of the VF.
func (c *Config) readSettings(o *strictjson.Object) {
	s := &c.Spec
	s.VLAN = readVLAN(o)
	if mac, ok := strictjson.Text(o, "mac", vf.ParseUnicastMAC); ok {
		s.MAC = &mac
	}
	for _, name := range vf.Switches() {
		if to := s.Switch(name); to != nil {
			if on, ok := readSwitch(o, name); ok {
				*to = &on
			}
		}
	}
	if state, ok := strictjson.Text(o, "link_state", vf.ParseLinkState); ok {
		s.LinkState = &state
	}
	if rate, ok := o.Uint("min_tx_rate", 0, math.MaxUint32); ok {
		s.MinTxRate = &rate
	}
	if rate, ok := o.Uint("max_tx_rate", 0, math.MaxUint32); ok {
		s.MaxTxRate = &rate
	}
	s.MTU = readMTU(o)
	if mode, ok := strictjson.Text(o, "guard", vf.ParseGuardMode); ok {
		s.Guard = mode
	}
	s.GuardAllow = readGuardAllow(o)
	for _, m := range s.Mistakes() {
		o.Fail(string(m.Setting), "%s", m.Want)
	}
}

// readMTU reads mtu. The SR-IOV CNI plugin has no such key and takes every value. Networks that are read
// as it reads them get the largest MTU for a larger one, and none for other values.
func readMTU(o *strictjson.Object) *int {
	mtu, number := 0, 0.0
	switch raw := o.Raw("mtu"); {
	case !o.IsLenient():
		n, ok := o.Uint("mtu", vf.MinMTU, vf.MaxMTU)
		if !ok {
			return nil
		}
		mtu = int(n)
	case raw == nil:
		return nil
	case json.Unmarshal(raw, &number) == nil && number > vf.MaxMTU:
		o.Doubt("mtu", "read as %d, the largest that there is", vf.MaxMTU)
		mtu = vf.MaxMTU
	case number < vf.MinMTU || number != math.Trunc(number):
		o.Doubt("mtu", "ignored: want a whole number between %d and %d, without quotes", vf.MinMTU, vf.MaxMTU)
		return nil
	default:
		mtu = int(number)
	}
	return &mtu
}

// readGuardAllow reads the kinds of frame that a guard lets pass, and returns each once and in order.
func readGuardAllow(o *strictjson.Object) (out []vf.GuardKey) {
	for _, text := range o.Strings("guardAllow") {
		k, err := vf.ParseGuardKey(text)
		if err != nil {
			o.Fail("guardAllow", "%s", excerpt.Line(err.Error()))
			return nil
		}
		out = append(out, k)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// checkGuard refuses a guard without addresses that it could pin when the attach ends. wrong is the
// error of the ipam section.
func (c *Config) checkGuard(o *strictjson.Object, wrong error) {
	switch {
	case c.Spec.Guard == "" && len(c.Spec.GuardAllow) > 0:
		o.Fail("guardAllow", "needs a guard; add \"guard\": \"ip\", or take it out")
	case c.Spec.Guard == "" || wrong != nil:
	case c.Bond != nil && c.Bond.Mode.CheckGuard(c.Spec.GuardAllow) != nil:
		o.Fail("guard", "%s", c.Bond.Mode.CheckGuard(c.Spec.GuardAllow))
	case c.IPAM.Type == "":
		o.Fail("guard", "needs an ipam section, whose addresses it pins")
	case c.IPAM.IsDelegated() && c.IPAM.Type == "dhcp":
		o.Fail("guard", "does not work with ipam of type dhcp, whose client sends from addresses that it does not have yet; use ranges of Culvert's")
	}
}

// readSwitch reads spoofchk or trust. The SR-IOV CNI plugin switches the setting off for every text
// but "on".
func readSwitch(o *strictjson.Object, name vf.Setting) (on, ok bool) {
	key, text := string(name), ""
	if err := json.Unmarshal(o.Raw(key), &text); err != nil || !o.IsLenient() || slices.Contains([]string{"", "on", "off"}, text) {
		return o.OnOff(key)
	}
	if name == vf.SetSpoofChk && !slices.Contains(meansOff, strings.ToLower(text)) {
		o.Fail(key, `want "on" or "off": the SR-IOV CNI plugin switches it off for every text but "on"`)
		return false, false
	}
	o.Doubt(key, `read as "off", as is every text but "on"`)
	return false, true
}

// meansOff are the texts, in lower case, of authors that want a switch off.
var meansOff = []string{"off", "false", "no", "disable", "disabled", "0"}

func readVLAN(o *strictjson.Object) *vf.VLAN {
	id, given := o.Uint("vlan", 0, vf.MaxVLAN)
	for _, key := range []string{"vlanQoS", "vlanProto"} {
		if o.Given(key) && !o.Has("vlan") {
			o.Fail(key, "needs a vlan; add \"vlan\": 0 for none")
			return nil
		}
	}
	qos, _ := o.Uint("vlanQoS", 0, vf.MaxQoS)
	v := vf.VLAN{ID: uint16(id), QoS: uint8(qos)}
	v.Proto, _ = strictjson.Text(o, "vlanProto", vf.ParseVLANProto)
	switch {
	case o.Failed("vlan"):
		return nil
	case v.ID != 0 || v.QoS != 0 || v.Proto == vf.Dot1AD:
		return &v
	case given:
		return &vf.VLAN{}
	}
	return nil
}

// readAttachments reads the attachments that GC keeps. The specification's first text of
// 1.1.0 named the key cni.dev/attachments.
func (c *Config) readAttachments(o *strictjson.Object) {
	for _, key := range []string{"cni.dev/attachments", "cni.dev/valid-attachments"} {
		if !slices.Contains(o.Keys(), key) {
			continue
		}
		c.Valid = []vf.Owner{}
		for _, in := range o.Objects(key) {
			owner := vf.Owner{UID: in.String("containerID"), Interface: in.String("ifname")}
			if !IsName(owner.UID) || !IsIfName(owner.Interface) {
				in.Fail("containerID", "want containerID and ifname of an attachment")
			}
			c.Valid = append(c.Valid, owner)
		}
	}
}
