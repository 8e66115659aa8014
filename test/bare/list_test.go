package bare

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const tree = "../.."

// read reads a file of YAML below the tree.
func read(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(tree, name))
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestOneList: Ansible's roles and the user data of cloud-init prepare a host by one list: the same
// modules, sysctls and packages, and the same configuration of containerd.
func TestOneList(t *testing.T) {
	var role struct {
		Modules []string       `yaml:"culvert_node_modules"`
		Sysctls map[string]int `yaml:"culvert_node_sysctls"`
	}
	var debian struct {
		Packages []string `yaml:"culvert_node_packages"`
	}
	var user struct {
		Packages []string `yaml:"packages"`
		Files    []struct {
			Path, Content string
		} `yaml:"write_files"`
		Commands []any `yaml:"runcmd"`
	}
	read(t, "dist/ansible/roles/node/defaults/main.yml", &role)
	read(t, "dist/ansible/roles/node/vars/Debian.yml", &debian)
	read(t, "dist/cloud-init/node.yaml", &user)
	files := map[string]string{}
	for _, f := range user.Files {
		files[f.Path] = f.Content
	}
	if diff := cmp.Diff(role.Modules, strings.Fields(files["/etc/modules-load.d/culvert-node.conf"])); diff != "" {
		t.Errorf("modules (-role +user data):\n%s", diff)
	}
	sysctls := map[string]int{}
	for line := range strings.Lines(files["/etc/sysctl.d/90-culvert-node.conf"]) {
		var key string
		var value int
		if _, err := fmt.Sscanf(line, "%s = %d", &key, &value); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		sysctls[key] = value
	}
	if diff := cmp.Diff(role.Sysctls, sysctls); diff != "" {
		t.Errorf("sysctls (-role +user data):\n%s", diff)
	}
	packages := append(slices.Clone(debian.Packages), "containerd")
	slices.Sort(packages)
	slices.Sort(user.Packages)
	if diff := cmp.Diff(packages, user.Packages); diff != "" {
		t.Errorf("packages (-role +user data):\n%s", diff)
	}
	if diff := cmp.Diff(containerdLines(t), meaning(files["/etc/containerd/config.toml"])); diff != "" {
		t.Errorf("containerd (-role +user data):\n%s", diff)
	}
}

// containerdLines returns the lines of the role's template with the default values of its
// variables, which leave the runtime's own image of sandboxes.
func containerdLines(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(tree, "dist/ansible/roles/runtime/templates/containerd.toml.j2"))
	if err != nil {
		t.Fatal(err)
	}
	whole, rest, _ := strings.Cut(string(text), "{% if culvert_runtime_pause %}\n")
	_, rest, _ = strings.Cut(rest, "{% endif %}\n")
	return meaning(strings.NewReplacer("{{ culvert_runtime_cni_bin }}", "/opt/cni/bin", "{{ culvert_runtime_cni_conf }}", "/etc/cni/net.d").Replace(whole + rest))
}

// meaning returns the lines of a file of TOML without its comments.
func meaning(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}
