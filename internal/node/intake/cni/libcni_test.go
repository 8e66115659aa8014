package cni

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/culvert-net/culvert/internal/api"
)

// TestLibcni drives the shim with the library that containerd, CRI-O, podman
// and cnitool use, through the life of an attachment in every version.
func TestLibcni(t *testing.T) {
	for _, version := range api.CNIVersions() {
		t.Run(version, func(t *testing.T) {
			e := newMemory(2)
			t.Setenv("CULVERT_SOCKET", daemon(t, e, everybody))
			list, err := libcni.ConfListFromBytes(fmt.Appendf(nil, `{"cniVersion":%q,"name":"net","plugins":[{"type":"culvert-cni","mtu":1400,
				"capabilities":{"mac":true,"ips":true,"deviceID":true},%s}]}`, version, pool))
			if err != nil {
				t.Fatal(err)
			}
			rt := &libcni.RuntimeConf{
				ContainerID: "c1", NetNS: "/run/netns/x", IfName: "net1",
				Args:           [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "default"}, {"K8S_POD_NAME", "a"}},
				CapabilityArgs: map[string]any{"mac": "02:00:00:00:00:07", "ips": []string{"10.0.0.5/29"}, "deviceID": "0000:01:10.1"},
			}
			c := libcni.NewCNIConfigWithCacheDir([]string{filepath.Dir(shim)}, t.TempDir(), nil)
			if _, err := c.ValidateNetworkList(t.Context(), list); err != nil {
				t.Fatalf("VERSION: %v", err)
			}
			r, err := c.AddNetworkList(t.Context(), list, rt)
			if err != nil {
				t.Fatalf("ADD: %v", err)
			}
			got, err := current.NewResultFromResult(r)
			if err == nil && len(got.Interfaces) == 0 && slices.Contains([]string{"0.1.0", "0.2.0"}, version) { // they have none
				got.Interfaces = []*current.Interface{{Mac: "02:00:00:00:00:07"}}
			}
			if err != nil || len(got.Interfaces) != 1 || got.Interfaces[0].Mac != "02:00:00:00:00:07" || len(got.IPs) != 1 || got.IPs[0].Address.String() != "10.0.0.5/29" {
				t.Errorf("ADD: %v, %+v", err, r)
			}
			want := "0000:01:10.1 net: pod default/a net1\n"
			if !strings.HasPrefix(version, "0.") || version == "0.4.0" {
				if err := c.CheckNetworkList(t.Context(), list, rt); err != nil {
					t.Errorf("CHECK: %v", err)
				}
			}
			if version == api.CNINewest {
				if err := c.GetStatusNetworkList(t.Context(), list); err != nil {
					t.Errorf("STATUS: %v", err)
				}
				valid := &libcni.GCArgs{ValidAttachments: []types.GCAttachment{{ContainerID: "c1", IfName: "net1"}}}
				if err := c.GCNetworkList(t.Context(), list, valid); err != nil {
					t.Errorf("GC: %v", err)
				}
			}
			if e.String() != want {
				t.Errorf("held: %s, want %s", e, want)
			}
			for range 2 {
				if err := c.DelNetworkList(t.Context(), list, rt); err != nil || e.String() != "" {
					t.Errorf("DEL: %v, left %s", err, e)
				}
			}
		})
	}
}
