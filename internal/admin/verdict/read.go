package verdict

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/internal/admin/migrate"
	"github.com/culvert-net/culvert/internal/node/desired"
)

// Read reads the objects of a file: documents of YAML or JSON, lists, a bare configuration
// of the device plugin (config.json), a bare CNI configuration, or a host.yaml. An object that
// cannot be read has Err.
func Read(file string, text []byte) []migrate.Object {
	var bare struct {
		Kind         string    `yaml:"kind"`
		ResourceList yaml.Node `yaml:"resourceList"`
		Type         string    `yaml:"type"`
		Plugins      yaml.Node `yaml:"plugins"`
		PFs          yaml.Node `yaml:"pfs"`
		Pools        yaml.Node `yaml:"pools"`
	}
	if err := yaml.Unmarshal(text, &bare); err != nil || bare.Kind != "" {
		return migrate.ReadAll(file, text)
	}
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	if file == "-" {
		name = "stdin"
	}
	switch {
	case bare.ResourceList.Kind != 0:
		return []migrate.Object{{Kind: migrate.KindConfigMap, Name: name, From: file, Data: map[string]string{"config.json": string(text)}}}
	case bare.Type != "" || bare.Plugins.Kind != 0:
		return []migrate.Object{{Kind: kindNetwork, Name: name, From: file, Spec: map[string]any{"config": string(text)}}}
	case bare.PFs.Kind != 0 || bare.Pools.Kind != 0:
		return []migrate.Object{{Kind: kindHost, Name: name, From: file, Data: map[string]string{kindHost: string(text)}}}
	}
	return migrate.ReadAll(file, text)
}

// objectOf turns a manifest of package migrate into an object to be judged.
func objectOf(m migrate.Manifest) (migrate.Object, error) {
	raw, err := json.Marshal(m)
	if err != nil {
		return migrate.Object{}, fmt.Errorf("%s: %w", m, err)
	}
	all, err := migrate.Read(m.String(), raw)
	if err != nil || len(all) != 1 {
		return migrate.Object{}, fmt.Errorf("%s: %w", m, err)
	}
	return all[0], nil
}

// configMap judges the configurations of the device plugin in a ConfigMap, and reports
// whether there is one.
func (v *Verdict) configMap(o migrate.Object) (judged bool) {
	all := devicePluginsOf(o)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		v.devicePlugin(key, []byte(all[key]))
	}
	judged = len(all) > 0
	for _, key := range slices.Sorted(maps.Keys(o.Data)) {
		judged = v.misspelledPools(key, o.Data[key]) || judged
	}
	return judged
}

func (v *Verdict) devicePlugin(key string, text []byte) {
	read, err := desired.ParseDevicePlugin(key, text, "")
	if err != nil {
		v.addRefusal("%v", err)
	}
	for _, e := range read.Refused {
		v.addWarning("an entry is refused, and the others are served: %v", e)
	}
	for _, w := range read.Warnings {
		v.addWarning("%v", w)
	}
	for _, p := range read.Pools {
		if p.Unserved != "" {
			v.addWarning("pool %s is not served: %s", p.FullName(), p.Unserved)
		}
	}
}

// valueBelow returns the object below keys, nil where there is none.
func valueBelow(in map[string]any, keys ...string) map[string]any {
	for _, key := range keys {
		in, _ = in[key].(map[string]any)
	}
	return in
}
