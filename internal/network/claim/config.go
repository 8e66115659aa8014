package claim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/network/netconf"
	"github.com/culvert-net/culvert/internal/network/strictjson"
	"github.com/culvert-net/culvert/internal/vf"
)

// APIVersion and Kind are the values of the keys apiVersion and kind of a configuration.
const (
	APIVersion = "culvert.dev/v1alpha1"
	Kind       = "VFConfig"
)

// MaxConfig is the greatest length of a configuration in bytes (k8s.io/api/resource/v1,
// OpaqueParametersMaxLength).
const MaxConfig = 10 << 10

// Config is the configuration of a VF in a ResourceClaim or DeviceClass: the opaque parameters for Driver.
type Config struct {
	// Network names a NetworkAttachmentDefinition, as namespace/name, or as name for one in the namespace
	// of the claim; empty: Plugin has the network.
	Network string
	// Plugin is the configuration of a CNI plugin of type culvert, with the keys of the network. Its name
	// says nothing. It is nil where Network is set.
	Plugin []byte
	// Interface is the name of the interface in the pod; empty: the next free one of net1, net2 and so on.
	Interface string
}

// ownKeys are the keys that a configuration has beside those of a network.
var ownKeys = []string{"apiVersion", "kind", "network", "interface"}

// networkKeys are the keys of a network of type culvert that a configuration may have.
var networkKeys = []string{
	"type", "vlan", "vlanQoS", "vlanProto", "mac", "spoofchk", "trust", "link_state", "min_tx_rate", "max_tx_rate", "mtu", "guard", "guardAllow", "bond", "ipam", "dns",
}

// refusedKeys are keys of a network that a configuration may not have, and what serves instead.
var refusedKeys = []struct{ key, instead string }{
	{"pool", "select the VF in the request of the claim"},
	{"segment", "select the segment in the request of the claim"},
	{"deviceID", "the claim has its device already"},
	{"deviceIDs", "the claim has its devices already"},
	{"pciBusID", "the claim has its device already"},
	{"name", "the network has the name of the claim"},
	{"cniVersion", "culvertd chooses the version"},
	{"runtimeConfig", "use mac and ipam"},
	{"args", "use mac and ipam"},
	{"capabilities", "a claim has no runtime's capabilities"},
}

// Parse reads a configuration. It is strict: it refuses keys that it does not know. The error lists
// everything that is wrong and wraps vf.ErrInvalid.
func Parse(raw []byte) (Config, error) {
	if len(raw) > MaxConfig {
		return Config{}, fmt.Errorf("%w: the configuration has %d bytes; want at most %d", vf.ErrInvalid, len(raw), MaxConfig)
	}
	o, err := strictjson.Parse(raw, "")
	if err != nil {
		return Config{}, err
	}
	known := slices.Concat(ownKeys, networkKeys)
	for _, refused := range refusedKeys {
		if slices.Contains(o.Keys(), refused.key) {
			o.Refuse(refused.key, "not in a claim: %s", refused.instead)
			known = append(known, refused.key)
		}
	}
	o.Known(known...)
	requireText(o, "apiVersion", APIVersion)
	requireText(o, "kind", Kind)
	c := Config{}
	c.Network, _ = strictjson.Text(o, "network", parseNetwork)
	c.Interface, _ = strictjson.Text(o, "interface", parseInterface)
	if o.Given("network") {
		refuseBeside(o)
		return c, o.Err()
	}
	if o.Given("type") {
		requireText(o, "type", netconf.TypeCulvert)
	}
	if err := o.Err(); err != nil {
		return c, err
	}
	c.Plugin, err = readPlugin(o)
	return c, err
}

// NetworkIn returns namespace and name of Network for a claim of a namespace.
func (c Config) NetworkIn(namespace string) (string, string) {
	if ns, name, qualified := strings.Cut(c.Network, "/"); qualified {
		return ns, name
	}
	return namespace, c.Network
}

func requireText(o *strictjson.Object, key, want string) {
	if got := o.String(key); got != want && !o.Failed(key) {
		o.Fail(key, "want %s", want)
	}
}

func parseNetwork(text string) (string, error) {
	e := netannotation.Element{Namespace: "default", Name: text}
	if ns, name, qualified := strings.Cut(text, "/"); qualified {
		e.Namespace, e.Name = ns, name
	}
	if err := e.CheckNames(); err != nil {
		return "", fmt.Errorf("%w: want the NetworkAttachmentDefinition as name or namespace/name: %w", vf.ErrInvalid, err)
	}
	return text, nil
}

func parseInterface(text string) (string, error) {
	if !config.IsIfName(text) {
		return "", fmt.Errorf("%s: %w: want the name of an interface, such as net1, of at most %d bytes", excerpt.Quote(text), vf.ErrInvalid, config.LongestIfName)
	}
	return text, nil
}

// refuseBeside refuses the keys of a network beside the name of another network, which has its own.
func refuseBeside(o *strictjson.Object) {
	for _, key := range networkKeys {
		if o.Has(key) {
			o.Fail(key, "the network that the key network names has its own settings: take this key out, or take network out")
		}
	}
}

// readPlugin makes the configuration of a plugin of the keys of a network, and judges it as the ADD of
// a pod does.
func readPlugin(o *strictjson.Object) ([]byte, error) {
	keys := map[string]json.RawMessage{
		"cniVersion": netconf.String(api.CNINewest), "name": netconf.String("claim"), "type": netconf.String(netconf.TypeCulvert),
	}
	for _, key := range networkKeys {
		if raw := o.Raw(key); raw != nil {
			keys[key] = raw
		}
	}
	raw, err := json.Marshal(keys)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", vf.ErrInvalid, err)
	}
	network, err := config.Parse(raw)
	if err != nil {
		return nil, err
	}
	// The addresses of a network must be those of a pool with an owner that admits the claim's namespace.
	// A range in a claim has no owner, and each claim could name the range of another (I4).
	if ipam := network.IPAM; !ipam.IsZero() && ipam.AddressPool == "" && ipam.PoolOf == "" {
		o.Fail("ipam", "a claim has no range of its own: take addresses of an AddressPool (addressPool) or of a network (poolOf), or name the network with the range in the key network")
		return nil, o.Err()
	}
	return raw, nil
}
