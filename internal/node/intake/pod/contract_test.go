package pod_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/network/netannotation"
	"github.com/culvert-net/culvert/internal/vf"
)

// statusByMultus is what Multus makes of a plugin's result for the pod's network-status, as
// github.com/k8snetworkplumbingwg/network-attachment-definition-client v1.7 does it: it leaves out
// the name, the MAC address and the MTU of an interface without a sandbox. It is a stand-in:
// test/kubernetes runs the real Multus.
func statusByMultus(t *testing.T, result []byte, deviceInfo string) (out networkStatus) {
	t.Helper()
	var r struct {
		Interfaces []struct {
			Name, Mac, Sandbox string
			Mtu                int
		}
		IPs []struct{ Address string }
	}
	if err := json.Unmarshal(result, &r); err != nil {
		t.Fatal(err)
	}
	for _, in := range r.Interfaces {
		if in.Sandbox != "" {
			out.Interface, out.MAC, out.MTU = in.Name, in.Mac, in.Mtu
		}
	}
	for _, ip := range r.IPs {
		bare, _, _ := strings.Cut(ip.Address, "/")
		out.IPs = append(out.IPs, bare)
	}
	if err := json.Unmarshal([]byte(deviceInfo), &out.DeviceInfo); err != nil {
		t.Fatal(err)
	}
	return out
}

// networkStatus is the part of an element of the network-status that a DPDK pod's readers
// use. KubeVirt finds the VF of an interface by its name and gives the guest the PCI address
// and the MAC address; DPDK programs read address and MTU.
type networkStatus struct {
	Interface  string   `json:"interface"`
	MAC        string   `json:"mac"`
	MTU        int      `json:"mtu"`
	IPs        []string `json:"ips"`
	DeviceInfo struct {
		Type string `json:"type"`
		PCI  struct {
			Address  string `json:"pci-address"`
			VhostNet string `json:"vhost-net"`
		} `json:"pci"`
	} `json:"device-info"`
}

// A pod whose VF goes to vfio-pci has a network-status with interface, MAC, MTU, addresses
// and device-info, with Culvert first and beside Multus.
func TestStatusOfADPDKPod(t *testing.T) {
	const dpdk = `{"type":"sriov","cniVersion":"1.0.0","name":"dpdk","mac":"02:11:22:33:44:55","mtu":1400,"ipam":{"type":"host-local","scope":"node","subnet":"172.16.91.0/24"}}`
	for _, way := range []string{"Culvert first", "beside Multus"} {
		t.Run(way, func(t *testing.T) {
			w := newWorldOf(t, hostFile+"  deviceType: vfio-pci\n")
			w.network("dpdk", dpdk, "intel.com/fast")
			w.asks("dpdk@pod3a7bd3e2f5c")
			device := w.vfs()[1]
			w.given["d/a/intel.com/fast"] = []vf.PCIAddr{device}
			// The file of the device plugin, by the device-info specification.
			info := fmt.Sprintf(`{"type":"pci","version":"1.1.0","pci":{"pci-address":%q,"vhost-net":"/dev/vhost-net"}}`, device)
			file := filepath.Join(w.dir, "devinfo", "dp", "intel.com-fast-"+device.String()+"-device.json")
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(info), 0o600); err != nil {
				t.Fatal(err)
			}
			var got networkStatus
			if way == "Culvert first" {
				w.add()
				raw, err := json.Marshal(w.status()[1])
				if err != nil || json.Unmarshal(raw, &got) != nil {
					t.Fatal(err, string(raw))
				}
			} else {
				got = statusByMultus(t, w.delegated("pod3a7bd3e2f5c", strings.Replace(dpdk, "{", fmt.Sprintf(`{"deviceID":%[1]q,"pciBusID":%[1]q,`, device), 1)), info)
			}
			if got.Interface != "pod3a7bd3e2f5c" || got.MAC != "02:11:22:33:44:55" || got.MTU == 0 || fmt.Sprint(got.IPs) != "[172.16.91.2]" {
				t.Errorf("%+v", got)
			}
			if i := got.DeviceInfo; i.Type != "pci" || i.PCI.Address != device.String() || i.PCI.VhostNet != "/dev/vhost-net" {
				t.Errorf("device-info %+v", i)
			}
		})
	}
}

// The default network that a pod's annotation names in the JSON form has the MAC, the
// addresses, the arguments and the default route that it asks for.
func TestDefaultNetworkInJSON(t *testing.T) {
	w := newWorld(t)
	own := strings.Replace(sriov, `"type":"sriov"`, `"type":"sriov","capabilities":{"mac":true,"ips":true}`, 1)
	w.network("kube-system/v", `{"cniVersion":"1.0.0","plugins":[`+own+`,{"type":"tuning"}]}`, "intel.com/fast")
	w.given["d/a/intel.com/fast"] = w.vfs()[2:3]
	w.pod(map[string]string{netannotation.DefaultNetwork: `[{"name":"v","interface":"net7","MAC":"02:00:00:00:00:09","ips":["172.16.91.9"],"cni-args":{"k":"v"},"default-route":["172.16.91.8"]}]`})
	w.add()
	s := w.status()[0]
	if s["interface"] != "eth0" || s["default"] != true || s["mac"] != "02:00:00:00:00:09" || fmt.Sprint(s["ips"]) != "[172.16.91.9]" || fmt.Sprint(s["gateway"]) != "[172.16.91.8]" {
		t.Errorf("network-status %v", s)
	}
	if got := w.host.config(t, "ADD", "tuning"); fmt.Sprint(got["args"]) != "map[cni:map[k:v]]" || got["deviceID"] != w.vfs()[2].String() {
		t.Errorf("tuning got %v", got)
	}
	w.wantIgnored("network kube-system/v: interface net7 is asked for")
	w.del()
	w.clean()
}

// A default network that a pod's annotation names gets the port mappings that the runtime passes.
// The annotation's own port mappings come first.
func TestDefaultNetworkGetsPortMappings(t *testing.T) {
	for name, tc := range map[string]struct{ annotation, want string }{
		"the runtime's":    {"lan", "map[portMappings:[map[containerPort:80 hostPort:8080]]]"},
		"the annotation's": {`[{"name":"lan","portMappings":[{"hostPort":9090,"containerPort":90}]}]`, "map[portMappings:[map[containerPort:90 hostPort:9090]]]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.network("kube-system/lan", `{"cniVersion":"1.0.0","plugins":[{"type":"bridge"},{"type":"portmap","capabilities":{"portMappings":true}}]}`)
			w.pod(map[string]string{netannotation.DefaultNetwork: tc.annotation})
			if resp := w.call("ADD", `,"runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":80}],"bandwidth":{"ingressRate":5}}`); resp.Exit != 0 {
				t.Fatalf("ADD: %s", resp.Stdout)
			}
			if got := fmt.Sprint(w.host.config(t, "ADD", "portmap")["runtimeConfig"]); got != tc.want {
				t.Errorf("portmap got %s, want %s", got, tc.want)
			}
			w.del()
			w.clean()
		})
	}
}
