package cluster

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/culvert-net/culvert/lab"
)

// TestNodeFiles: every template is filled, and files of YAML or JSON stay
// valid.
func TestNodeFiles(t *testing.T) {
	p := &plan{Cluster: &Cluster{Parts: Parts{Runtime: CRIO}}, nodes: []lab.Node{{Name: "worker01", Address: "192.168.77.11"}, {Name: "worker1", Address: "192.168.77.12"}}}
	dir := t.TempDir()
	if err := writeTemplates(dir, p.factsOf(2), "files/node", "files/crio", "files/flannel-node"); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		all.Write(body)
		var v any
		switch filepath.Ext(name) {
		case ".yaml":
			err = yaml.Unmarshal(body, &v)
		case ".json", ".conflist":
			err = json.Unmarshal(body, &v)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--hostname-override=worker1 ", "--node-ip=192.168.77.12 ", "address replace 172.31.0.2/24 dev enp1s0", "NODE_NAME=worker1\n", "unix:///run/crio/crio.sock", "After=crio.service", `"Network": "10.244.0.0/16"`} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no file has %q", want)
		}
	}
	if strings.Contains(all.String(), "{{") {
		t.Error("a template is left as it was")
	}
}

// TestManifests: the manifests that kubectl applies are YAML, and each object
// has a kind.
func TestManifests(t *testing.T) {
	in := yaml.NewDecoder(strings.NewReader(flannelManifest + "---\n" + coreDNSManifest))
	count := 0
	for {
		var object struct{ Kind, APIVersion string }
		if in.Decode(&object) != nil {
			break
		}
		if count++; object.Kind == "" {
			t.Errorf("object %d has no kind", count)
		}
	}
	if count != 6 {
		t.Errorf("%d objects", count)
	}
}
