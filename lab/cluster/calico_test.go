package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ownManifest has the objects of Calico's manifest that the lab changes, and one that it does not.
const ownManifest = `
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: calico-kube-controllers}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: calico-config}
data:
  calico_backend: vxlan
  veth_mtu: "0"
  cni_network_config: |-
    {
      "plugins": [
        {
          "type": "calico",
          "mtu": __CNI_MTU__
        },
        {
          "type": "portmap",
          "capabilities": {"portMappings": true}
        },
        {
          "type": "bandwidth",
          "capabilities": {"bandwidth": true}
        }
      ]
    }
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: calico-node}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: calico-node}
spec:
  template:
    spec:
      initContainers:
      - name: install-cni
        image: docker.io/calico/cni:v3.28.5
      containers:
      - name: calico-node
        image: docker.io/calico/node:v3.28.5
        env:
        - name: DATASTORE_TYPE
          value: kubernetes
        - name: CALICO_IPV4POOL_VXLAN
          value: CrossSubnet
        livenessProbe: {exec: {command: [/bin/calico-node, -felix-live]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: calico-kube-controllers}
spec: {template: {spec: {containers: [{image: docker.io/calico/kube-controllers:v3.28.5}]}}}
`

// The lab sets R0's MTU and the addresses of pods in Calico's own manifest, and leaves the rest as it
// is. With calico-crosssubnet nothing is encapsulated within a subnet.
func TestCalicoObjects(t *testing.T) {
	for n, encapsulate := range map[CNI]string{Calico: "Always", CalicoCrossSubnet: "CrossSubnet"} {
		body, err := calicoObjects([]byte(ownManifest), n)
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			Items []struct {
				Kind string            `json:"kind"`
				Data map[string]string `json:"data"`
				Spec struct {
					Template struct {
						Spec struct {
							InitContainers []map[string]any `json:"initContainers"`
							Containers     []struct {
								Env   []struct{ Name, Value string } `json:"env"`
								Probe struct {
									HTTPGet struct{ Path string } `json:"httpGet"`
									Exec    any                   `json:"exec"`
								} `json:"livenessProbe"`
							} `json:"containers"`
						} `json:"spec"`
					} `json:"template"`
				} `json:"spec"`
			} `json:"items"`
		}
		if err := json.Unmarshal(body, &list); err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for _, one := range list.Items {
			kinds = append(kinds, one.Kind)
		}
		if want := []string{"ConfigMap", "ServiceAccount", "DaemonSet"}; !slices.Equal(kinds, want) {
			t.Fatalf("%s: the objects are %v, want %v", n, kinds, want)
		}
		if data := list.Items[0].Data; data["veth_mtu"] != "1450" || data["calico_backend"] != "vxlan" {
			t.Errorf("%s: calico-config is %v", n, data)
		}
		var config struct {
			Plugins []struct {
				Type string `json:"type"`
			} `json:"plugins"`
		}
		text := strings.ReplaceAll(list.Items[0].Data["cni_network_config"], "__CNI_MTU__", "1450")
		if err := json.Unmarshal([]byte(text), &config); err != nil || len(config.Plugins) != 2 || config.Plugins[1].Type != "portmap" {
			t.Errorf("%s: the plugins are %+v: %v: %s", n, config.Plugins, err, text)
		}
		pod := list.Items[2].Spec.Template.Spec
		env := map[string]string{}
		for _, v := range pod.Containers[0].Env {
			if env[v.Name] != "" {
				t.Errorf("%s: %s is set twice", n, v.Name)
			}
			env[v.Name] = v.Value
		}
		if env["CALICO_IPV4POOL_VXLAN"] != encapsulate || env["CALICO_IPV4POOL_CIDR"] != podNetwork || env["DATASTORE_TYPE"] != "kubernetes" {
			t.Errorf("%s: calico-node has %v", n, env)
		}
		if probe := pod.Containers[0].Probe; probe.HTTPGet.Path != "/liveness" || probe.Exec != nil {
			t.Errorf("%s: the probe is %+v", n, probe)
		}
		if len(pod.InitContainers) != 1 {
			t.Errorf("%s: the pod has the init containers %v", n, pod.InitContainers)
		}
	}
}

// A manifest of another form is refused: the lab would set nothing in it.
func TestCalicoObjectsOfAnotherForm(t *testing.T) {
	for what, manifest := range map[string]string{
		"empty":             "",
		"no YAML":           "a: [",
		"without DaemonSet": strings.ReplaceAll(ownManifest, "kind: DaemonSet", "kind: Deployment"),
		"two containers":    strings.Replace(ownManifest, "      containers:\n", "      containers:\n      - name: more\n", 1),
		"another container": strings.Replace(ownManifest, "- name: calico-node", "- name: node", 1),
	} {
		if got, err := calicoObjects([]byte(manifest), Calico); err == nil {
			t.Errorf("%s: %s", what, got)
		}
	}
}

// The images have the names that the manifest has, the plugin has both its names, and Felix finds
// the program that it clears rules for IPv6 with, and the protocols of named ports.
func TestCalicoImages(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "calico-vxlan.yaml"), []byte(ownManifest), 0o600); err != nil {
		t.Fatal(err)
	}
	images, err := calicoImages(Parts{Calico: dir}, "/root")
	if err != nil || len(images) != 2 || images[0].Name != "docker.io/calico/cni:v3.28.5" || images[1].Name != "docker.io/calico/node:v3.28.5" {
		t.Fatalf("%+v, %v", images, err)
	}
	for _, to := range []string{"/opt/cni/bin/calico", "/opt/cni/bin/calico-ipam"} {
		if !slices.Contains(images[0].Layers, Layer{filepath.Join(dir, "calico"), to}) {
			t.Errorf("calico/cni lacks %s: %v", to, images[0].Layers)
		}
	}
	if !slices.Contains(images[1].Layers, Layer{"/root/usr/sbin/iptables-nft-restore", "/usr/sbin/ip6tables-nft-restore"}) {
		t.Errorf("calico/node lacks ip6tables-nft-restore: %v", images[1].Layers)
	}
	if start := images[1].Cmd[len(images[1].Cmd)-1]; !strings.Contains(start, ">/etc/protocols") {
		t.Errorf("calico/node starts without /etc/protocols: %s", start)
	}
	if err := os.WriteFile(filepath.Join(dir, "calico-vxlan.yaml"), []byte("kind: List"), 0o600); err != nil {
		t.Fatal(err)
	}
	if images, err := calicoImages(Parts{Calico: dir}, "/root"); err == nil {
		t.Errorf("a manifest without images: %+v", images)
	}
}

func TestParseCNI(t *testing.T) {
	for text, want := range map[string]CNI{"": Flannel, "flannel": Flannel, "calico": Calico, "calico-crosssubnet": CalicoCrossSubnet} {
		if got, err := ParseCNI(text); err != nil || got != want {
			t.Errorf("%q is %q: %v", text, got, err)
		}
	}
	if got, err := ParseCNI("cilium"); err == nil || !strings.Contains(err.Error(), "calico-crosssubnet") {
		t.Errorf("%q, %v", got, err)
	}
}

// Each part of a cluster is found for the networks that need it alone.
func TestNodeProgramsByNetwork(t *testing.T) {
	parts := Parts{Kubernetes: "/k", Flannel: "/f", FlannelCNI: "/fc", Calico: "/c", CNI: t.TempDir()}
	for n, want := range map[CNI]bool{Flannel: true, Calico: false, CalicoCrossSubnet: false} {
		places, err := nodePrograms(parts, n)
		if err != nil {
			t.Fatal(err)
		}
		if got := places["/f/flannel"] != "" && places["/fc/flannel"] != ""; got != want {
			t.Errorf("%s: %v", n, places)
		}
	}
}
