//go:build lab

package bare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/lab"
	"github.com/culvert-net/culvert/test/labs"
	"github.com/culvert-net/culvert/test/soak"
)

// hostVars declares VFs of a host without Kubernetes.
const hostVars = `culvert_host_folder: FOLDER
culvert_host_config:
  pfs: [{name: enp1s0, vfs: VFS}]
  pools: [{name: guests, selectors: {pfNames: [enp1s0]}}]
`

// The playbook installs Culvert on a host and makes its VFs. A second run changes nothing, a changed
// declaration is applied, and a wrong one is refused before it is written.
func TestHost(t *testing.T) {
	soak.Only(t, "three runs of a playbook on an emulated processor")
	h := newHost(t, lab.Options{Name: labs.Name("bare-host")})
	a := newAnsible(t, h)
	h.giveApt(t)
	h.givePython(t)
	file := filepath.Join(t.TempDir(), "vars.yml")
	declare := func(vfs string) {
		t.Helper()
		text := strings.NewReplacer("FOLDER", absolute(t, top+"/build/bin"), "VFS", vfs).Replace(hostVars)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, vfs := range []string{"3", "5"} {
		declare(vfs)
		if c, out := a.play(t, "host", "--extra-vars", "@"+file); c.changed == 0 {
			t.Errorf("%s VFs: a run changes nothing:\n%s", vfs, out)
		}
		if got := strings.TrimSpace(h.sh(t, "cat /sys/class/net/enp1s0/device/sriov_numvfs")); got != vfs {
			t.Errorf("enp1s0 has %s VFs, want %s", got, vfs)
		}
	}
	if c, out := a.play(t, "host", "--extra-vars", "@"+file); c.changed > 0 {
		t.Errorf("a second run changes %d things:\n%s", c.changed, out)
	}
	declare("many")
	mentions(t, a.fail(t, "host", "--extra-vars", "@"+file), "many")
	if got := h.sh(t, "cat /etc/culvert/host.yaml"); strings.Contains(got, "many") {
		t.Errorf("a wrong declaration was written:\n%s", got)
	}
}

// cloud-init finds no mistake in the user data.
func TestUserData(t *testing.T) {
	soak.Only(t, "cloud-init on an emulated processor")
	h := newHost(t, lab.Options{Name: labs.Name("bare-data")})
	h.givePython(t)
	h.unpack(t, "cloud-init", "python3-configobj", "python3-jinja2", "python3-jsonpatch", "python3-json-pointer", "python3-jsonschema", "python3-markupsafe",
		"python3-attr", "python3-jsonschema-specifications", "python3-referencing", "python3-rpds-py", "python3-yaml", "libyaml-0-2", "python3-oauthlib", "python3-requests", "python3-urllib3", "python3-certifi", "python3-idna", "python3-chardet", "python3-charset-normalizer")
	h.copyTo(t, top+"/dist/cloud-init/node.yaml", "/root/node.yaml")
	mentions(t, h.sh(t, "cloud-init schema --config-file /root/node.yaml"), "Valid schema")
	if out, exit := h.try(t, "sed -i 's/^packages:.*/packages: 7/' /root/node.yaml; cloud-init schema --config-file /root/node.yaml"); exit == 0 {
		t.Errorf("a wrong list of packages is valid: %s", out)
	}
}
