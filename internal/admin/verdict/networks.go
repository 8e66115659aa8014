package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/admin/migrate"
	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/node/intake/pod"
	"github.com/culvert-net/culvert/internal/vf"
)

// operatorNetworks are the operator's objects of which it makes a NetworkAttachmentDefinition.
var operatorNetworks = []string{migrate.KindNetwork, migrate.KindIBNetwork, migrate.KindOVSNetwork}

// networkOf returns the network of an object.
func networkOf(o migrate.Object) api.NetworkDefinition {
	config, _ := o.Spec["config"].(string)
	return api.NetworkDefinition{Namespace: cmp.Or(o.Namespace, defaultNamespace), Name: o.Name, Annotations: o.Annotations, Config: config}
}

// defaultNamespace is that of objects without one.
const defaultNamespace = "default"

// networksIn returns the networks of documents, by namespace/name: the NetworkAttachmentDefinitions,
// and those into which objects of the operator are converted. unserved has the objects that are not
// converted, by the network that the operator makes of them.
func networksIn(documents []document) (networks map[string]api.NetworkDefinition, unserved map[string]string) {
	networks, unserved = map[string]api.NetworkDefinition{}, map[string]string{}
	for _, d := range documents {
		if n := networkOf(d.Object); d.Kind == kindNetwork && strings.TrimSpace(n.Config) != "" {
			networks[n.Namespace+"/"+n.Name] = n
		}
	}
	for _, d := range documents {
		if d.Err != nil || !slices.Contains(operatorNetworks, d.Kind) {
			continue
		}
		made := convertedNetworks(d.Object)
		for _, n := range made {
			if name := n.Namespace + "/" + n.Name; networks[name].Name == "" {
				networks[name] = n
			}
		}
		if len(made) == 0 {
			namespace, _ := d.Spec["networkNamespace"].(string)
			unserved[cmp.Or(namespace, d.Namespace, defaultNamespace)+"/"+d.Name] = d.String()
		}
	}
	return networks, unserved
}

// convertedNetworks returns the networks into which an object of the operator is converted.
func convertedNetworks(o migrate.Object) (out []api.NetworkDefinition) {
	for _, m := range migrate.Convert([]migrate.Object{o}, migrate.Options{}).Manifests {
		if made, err := objectOf(m); err == nil && made.Kind == kindNetwork {
			out = append(out, networkOf(made))
		}
	}
	return out
}

// findIn finds networks.
func findIn(networks map[string]api.NetworkDefinition) pod.Definitions {
	return func(namespace, name string) (api.NetworkDefinition, error) {
		n, ok := networks[namespace+"/"+name]
		if !ok {
			return n, fmt.Errorf("network %s/%s: %w", namespace, name, vf.ErrNotFound)
		}
		return n, nil
	}
}
