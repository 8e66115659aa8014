//go:build lab

package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
)

// The chart's values set the folders of distributions that have others than kubeadm's clusters
// (docs/platforms.md). A release from before a value keeps the usual folder.
func TestChartSetsFolders(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want map[string]string
	}{
		"as it is": {nil, map[string]string{
			"cni-bin": "/opt/cni/bin", "cni-conf": "/etc/cni/net.d", "device-plugins": "/var/lib/kubelet/device-plugins", "pod-resources": "/var/lib/kubelet/pod-resources", "netns": "/run/netns",
		}},
		"others": {[]string{"--set", "node.cniBin=/b,node.cniConf=/c,node.kubelet=/k,node.netns=/var/run/netns"}, map[string]string{
			"cni-bin": "/b", "cni-conf": "/c", "device-plugins": "/k/device-plugins", "pod-resources": "/k/pod-resources", "netns": "/var/run/netns",
		}},
		"reused values without netns": {[]string{"--set", "node.netns=null"}, map[string]string{
			"cni-bin": "/opt/cni/bin", "cni-conf": "/etc/cni/net.d", "device-plugins": "/var/lib/kubelet/device-plugins", "pod-resources": "/var/lib/kubelet/pod-resources", "netns": "/run/netns",
		}},
	} {
		set := objectOf[appsv1.DaemonSet](t, decodeObjects(t, []byte(templateChart(t, c.args...))), "DaemonSet", "culvertd")
		got := map[string]string{}
		for _, v := range set.Spec.Template.Spec.Volumes {
			if _, asked := c.want[v.Name]; asked {
				got[v.Name] = v.HostPath.Path
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
