package pod_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/culvert-net/culvert/internal/node/intake/pod"
)

// plugins stands for all plugins: it records the commands, and answers ADD.
type plugins struct {
	version.PluginDecoder
	commands []string
}

func (p *plugins) ExecPlugin(_ context.Context, path string, _ []byte, environ []string) ([]byte, error) {
	i := slices.IndexFunc(environ, func(v string) bool { return strings.HasPrefix(v, "CNI_COMMAND=") })
	command := strings.TrimPrefix(environ[i], "CNI_COMMAND=")
	p.commands = append(p.commands, command+" "+filepath.Base(path))
	if command == "ADD" {
		return []byte(`{"cniVersion":"0.3.1","ips":[{"version":"4","address":"10.244.0.2/24"}]}`), nil
	}
	return nil, nil
}

func (p *plugins) FindInPath(plugin string, _ []string) (string, error) { return plugin, nil }

// crioStarts does what CRI-O does with networks when it starts (ocicni 0.4.3, loadNetworks and GC):
// it calls GC for the first file of each network's name, and reports all pods as those of the first.
func crioStarts(t *testing.T, dir string, c *libcni.CNIConfig, pods []types.GCAttachment) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.conflist"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files { // sorted
		list, err := libcni.NetworkConfFromFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if seen[list.Name] {
			continue
		}
		valid := pods
		if len(seen) > 0 {
			valid = nil
		}
		seen[list.Name] = true
		if err := c.GCNetworkList(t.Context(), list, &libcni.GCArgs{ValidAttachments: valid}); err != nil {
			t.Error(err)
		}
	}
}

// A pod of before Culvert keeps the default network when CRI-O starts again: CRI-O calls no DEL for it.
func TestCRIOKeepsPodsOfBefore(t *testing.T) {
	dir, ran := folder(t, map[string]string{"10-flannel.conflist": flannel}), &plugins{}
	c := libcni.NewCNIConfigWithCacheDir([]string{"/opt/cni/bin"}, t.TempDir(), ran)
	before, err := libcni.NetworkConfFromFile(filepath.Join(dir, "10-flannel.conflist"))
	if err != nil {
		t.Fatal(err)
	}
	rt := &libcni.RuntimeConf{ContainerID: "c1", NetNS: "/run/netns/c1", IfName: "eth0"}
	if _, err := c.AddNetworkList(t.Context(), before, rt); err != nil {
		t.Fatal(err)
	}
	if why, err := pod.Take(dir, pod.Auto); why != "" || err != nil {
		t.Fatal(why, err)
	}
	ran.commands = nil
	crioStarts(t, dir, c, []types.GCAttachment{{ContainerID: "c1", IfName: "eth0"}})
	if !slices.Equal(ran.commands, []string{"GC culvert"}) {
		t.Errorf("CRI-O ran %q", ran.commands)
	}
	crioStarts(t, dir, c, nil) // the pod is gone
	if !slices.ContainsFunc(ran.commands, func(s string) bool { return strings.HasPrefix(s, "DEL ") }) {
		t.Errorf("CRI-O ran no DEL of a pod that is gone: %q", ran.commands)
	}
}
