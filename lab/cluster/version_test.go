package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/culvert-net/culvert/lab"
)

// The modules below test/tools have the programs of the versions that a cluster may have, all from
// one release.
func TestVersionsAreThoseOfTheParts(t *testing.T) {
	for part, v := range map[string]Version{Current.part(): Current, Earlier.part(): Earlier, "kubeadm": Current} {
		name := filepath.Join("../../test/tools", part, "go.mod")
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := modfile.Parse(name, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(m.Require, func(r *modfile.Require) bool { return r.Mod.Path == "k8s.io/kubernetes" })
		if i < 0 || m.Require[i].Mod.Version != "v"+string(v) {
			t.Errorf("%s does not require Kubernetes %s", name, v)
		}
		staging := "v0." + strings.TrimPrefix(string(v), "1.") // Kubernetes 1.37.2 consists of k8s.io/api v0.37.2 and more
		for _, r := range m.Replace {
			if r.New.Version != staging {
				t.Errorf("%s has %s %s, want %s", name, r.New.Path, r.New.Version, staging)
			}
		}
	}
}

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]Version{"": Current, "1.37.2": Current, "1.34.3": Earlier, "1.35.4": "", "v1.37.2": ""} {
		got, err := ParseVersion(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ParseVersion(%q) = %q, %v, want %q", text, got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), `"`+text+`": want 1.37.2 or 1.34.3`) {
			t.Error(err)
		}
	}
}

// All programs of Kubernetes have the same gates, and the kubelet has that of a panic besides.
func TestGates(t *testing.T) {
	for v, want := range map[Version]struct{ flag, kubelet, groups string }{
		Current: {"", "{}", ""},
		Earlier: {
			"DRAConsumableCapacity=true,DRADeviceTaints=true,DRAExtendedResource=true,DRAPartitionableDevices=true,ResourceHealthStatus=true",
			`{"DRAConsumableCapacity":true,"DRADeviceTaints":true,"DRAExtendedResource":true,"DRAPartitionableDevices":true,"InPlacePodVerticalScaling":false,"ResourceHealthStatus":true}`,
			"resource.k8s.io/v1alpha3=true",
		},
	} {
		p := &plan{Cluster: &Cluster{Lab: &lab.Lab{}, Parts: Parts{Version: v}}, nodes: []lab.Node{{Name: "worker01"}}}
		for _, one := range p.controlPrograms() {
			isKubernetes := strings.HasPrefix(one.Name, "kube-")
			if got := flagsOf(one, "--feature-gates="); isKubernetes != slices.Equal(got, []string{want.flag}) {
				t.Errorf("%s of %s has the gates %q, want %q", one.Name, v, got, want.flag)
			}
			if got := flagsOf(one, "--runtime-config="); (one.Name == "kube-apiserver") != slices.Equal(got, []string{want.groups}) {
				t.Errorf("%s of %s serves %q, want %q", one.Name, v, got, want.groups)
			}
		}
		dir := t.TempDir()
		if err := writeTemplates(dir, p.factsOf(1), "files/node"); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "etc/kubernetes/kubelet.yaml"))
		if err != nil || !strings.Contains(string(text), "\nfeatureGates: "+want.kubelet+"\n") {
			t.Errorf("%v: no gates %s in\n%s", err, want.kubelet, text)
		}
	}
}

func flagsOf(p lab.Program, prefix string) (values []string) {
	for _, arg := range p.Argv {
		if value, ok := strings.CutPrefix(arg, prefix); ok {
			values = append(values, value)
		}
	}
	return values
}

// A lab that is up has to be of the kind that Up is asked for.
func TestCheckKind(t *testing.T) {
	c := &Cluster{Lab: &lab.Lab{}, CNI: Flannel, Parts: Parts{Runtime: Containerd, Version: Current}}
	for want, o := range map[string]Options{
		"": {}, "with cri-o: it is up with containerd": {Runtime: CRIO}, "with Calico (VXLAN): it is up with Flannel": {CNI: Calico},
		"with Kubernetes 1.34.3: it is up with Kubernetes 1.37.2": {Version: Earlier},
	} {
		o, err := o.complete()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.checkKind(o); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	if _, err := (Options{CNI: "cilium", Version: "1.0"}).complete(); err == nil || !strings.Contains(err.Error(), "flannel") || !strings.Contains(err.Error(), "1.34.3") {
		t.Error(err)
	}
}
