package verdict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/culvert-net/culvert/api/v1alpha1"
	"github.com/culvert-net/culvert/internal/admin/migrate"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/ipam/blocks"
	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/node/desired"
	"github.com/culvert-net/culvert/internal/node/intake/pod"
)

// files has the objects of all files.
type files struct {
	rules pod.Rules
	// unserved has the objects that make a network for which Culvert has no configuration, by the
	// network's namespace/name.
	unserved map[string]string
	// claims has the pods that ask for an address, by fixed.listClaims.
	claims map[string][]string
	// pools are the pools that NodePolicies, host.yaml and the device plugin's configuration make,
	// by their full names; nil where the files have none of these.
	pools map[string]bool
}

func newFiles(documents []document) files {
	networks, unserved := networksIn(documents)
	f := files{rules: pod.Rules{Find: findIn(networks)}, unserved: unserved, claims: claimsIn(documents, findIn(networks))}
	for _, d := range documents {
		o := d.Object
		if o.Err != nil {
			continue
		}
		for _, p := range poolsOf(o) {
			if f.pools == nil {
				f.pools = map[string]bool{}
			}
			f.pools[p.FullName()] = true
		}
		if global, on := isolationOf(o); on {
			f.rules.Isolation.On, f.rules.Isolation.Global = true, append(f.rules.Isolation.Global, global...)
		}
		if every := migrate.EveryPod(o.Data, argumentsOf(o)); len(f.rules.EveryPod.Networks) == 0 {
			f.rules.EveryPod = every
		}
	}
	return f
}

// poolsOf returns the pools that an object makes.
func poolsOf(o migrate.Object) (out []desired.Pool) {
	switch o.Kind {
	case kindPolicy:
		spec, _ := policyOf(o)
		s, _ := desired.FromPolicy(o.Name, spec)
		return s.Pools
	case kindHost:
		s, _ := desired.Parse(o.From, []byte(o.Data[kindHost]))
		return s.Pools
	case migrate.KindConfigMap:
		for key, text := range devicePluginsOf(o) {
			read, _ := desired.ParseDevicePlugin(key, []byte(text), "")
			out = append(out, read.Pools...)
		}
	case migrate.KindPolicy:
		for _, m := range migrate.Convert([]migrate.Object{o}, migrate.Options{}).Manifests {
			if made, err := objectOf(m); err == nil {
				out = append(out, poolsOf(made)...)
			}
		}
	}
	return out
}

// policyOf reads a NodePolicy.
func policyOf(o migrate.Object) (out v1alpha1.NodePolicySpec, err error) {
	return out, decodeSpec(o, &out)
}

// decodeSpec reads the spec of an object of Culvert's API group as the API server does: it refuses
// keys that it does not know.
func decodeSpec(o migrate.Object, to any) error {
	raw, err := json.Marshal(o.Spec)
	if err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	err = excerpt.DecodeJSON(raw, func(text []byte) error {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		return d.Decode(to)
	})
	if err != nil {
		return fmt.Errorf("spec: %w%s", err, suggestField(err, to))
	}
	return nil
}

// devicePluginsOf returns the configurations of the device plugin in a ConfigMap, by key.
func devicePluginsOf(o migrate.Object) map[string]string {
	out := map[string]string{}
	for key, text := range o.Data {
		var config struct {
			ResourceList []any `yaml:"resourceList"`
		}
		if strings.Contains(text, "resourceList") && (yaml.Unmarshal([]byte(text), &config) != nil || config.ResourceList != nil) {
			out[key] = text
		}
	}
	return out
}

// isolationOf reports whether an object switches namespace isolation on, and which namespaces are
// global then: a DaemonSet of culvertd or of Multus by its arguments, or Multus' ConfigMap.
func isolationOf(o migrate.Object) (global []string, on bool) {
	global, on = migrate.Isolation(o.Data, argumentsOf(o))
	switch {
	case !on || len(global) > 0:
	case o.Kind == migrate.KindConfigMap || strings.Contains(o.Name, "multus"):
		global = migrate.MultusGlobal()
	default:
		global = netannotation.DefaultGlobal()
	}
	return global, on
}

// argumentsOf returns the commands and arguments of the containers of a workload.
func argumentsOf(o migrate.Object) (args []string) {
	containers, _ := valueBelow(o.Spec, "template", "spec")["containers"].([]any)
	for _, c := range containers {
		m, _ := c.(map[string]any)
		for _, list := range []string{"command", "args"} {
			words, _ := m[list].([]any)
			for _, w := range words {
				args = append(args, fmt.Sprint(w))
			}
		}
	}
	return args
}

// poolExists warns if the objects of the files make pools, but not the pool of a network.
func (v *Verdict) poolExists(n api.NetworkDefinition, f files) {
	name := n.Annotations[netannotation.ResourceName]
	if name == "" || f.pools == nil || f.pools[name] {
		return
	}
	v.addWarning("no NodePolicy, host.yaml or configuration of the device plugin in these files makes its pool %s; they make %s",
		name, strings.Join(slices.Sorted(maps.Keys(f.pools)), ", "))
}

// judgePolicy judges a NodePolicy.
func (v *Verdict) judgePolicy(o migrate.Object) {
	spec, err := policyOf(o)
	if err == nil {
		_, err = desired.FromPolicy(o.Name, spec)
	}
	if err != nil {
		v.addRefusal("%v", err)
	}
}

// judgeAddressPool judges an AddressPool that a person declares. Those of the controller are not
// judged.
func (v *Verdict) judgeAddressPool(o migrate.Object) bool {
	pool := v1alpha1.AddressPool{ObjectMeta: metav1.ObjectMeta{Name: o.Name}}
	if err := decodeSpec(o, &pool.Spec); err != nil {
		v.addRefusal("%v", err)
		return true
	}
	if pool.Spec.Network != "" {
		return false
	}
	read, err := blocks.FromObject(&pool)
	if err == nil {
		err = read.Declared.Err
	}
	if err != nil {
		v.addRefusal("spec: %v", err)
	}
	return true
}

// judgeHostFile judges a host.yaml.
func (v *Verdict) judgeHostFile(o migrate.Object) {
	if _, err := desired.Parse(o.From, []byte(o.Data[kindHost])); err != nil {
		v.addRefusal("%v", err)
	}
}
