//go:build kubernetes

package kubernetes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/lab/parts"
	"github.com/culvert-net/culvert/test/promises"
	"github.com/culvert-net/culvert/test/releases"
	"github.com/culvert-net/culvert/test/soak"
)

// airGapped is a cluster of one node, to which a test carries releases.
var airGapped = &site{names: []string{"worker01"}}

// airGappedPage is the page that TestAirGapped follows.
const airGappedPage = "docs/air-gapped.md"

// siteRegistry is the site's registry. It runs on the node, and containerd speaks plain HTTP with it.
const siteRegistry = "127.0.0.1:5000"

// TestAirGapped follows docs/air-gapped.md with two releases on a node that has no network but that of
// the lab: it verifies, installs, upgrades and removes them, by import and manifest, and then by
// registry and chart. Pods keep their VFs. Nothing is fetched from elsewhere.
func TestAirGapped(t *testing.T) {
	soak.Only(t, "two releases, and a cluster of its own")
	made, signers := releases.MakeTwo(t, top, "")
	need(t, airGapped)
	var carried []*carriedRelease
	for _, dir := range made {
		carried = append(carried, carryRelease(t, dir, signers))
	}
	for _, way := range []airGappedWay{
		{name: "import and manifest", bring: "Import it on each node", install: "Install by manifest", upgrade: "Upgrade by manifest", remove: "Remove by manifest"},
		{name: "registry and chart", bring: "Push it to the site's registry", install: "Install by chart", upgrade: "Upgrade by chart", remove: "Remove by chart", registry: siteRegistry},
	} {
		if !t.Run(way.name, func(t *testing.T) { way.follow(t, carried) }) {
			t.Fatal(state())
		}
	}
}

// carriedRelease is a release that is on a machine with kubectl, and its image on the node.
type carriedRelease struct {
	*reader
	version string
	digest  string // of its image
}

// carryRelease verifies a release as the page does, and copies the image to the node. The folder of the
// release gets the file of the publisher's key.
func carryRelease(t *testing.T, dir, signers string) *carriedRelease {
	t.Helper()
	if err := os.Link(signers, filepath.Join(dir, "allowed_signers")); err != nil {
		t.Fatal(err)
	}
	r := &carriedRelease{reader: &reader{startShell(t, dir)}, version: filepath.Base(dir)}
	said := r.follow(t, airGappedPage, "Verify", nil)
	if !strings.Contains(said, "-image.tar: OK\n") || !strings.Contains(said, "culvert.yaml: OK\n") {
		t.Errorf("the page's commands verify\n%s", said)
	}
	r.digest = strings.TrimSpace(r.run(t, "echo $digest"))
	if len(r.digest) != len("sha256:")+64 {
		t.Fatalf("the image has the digest %q", r.digest)
	}
	helm, err := parts.Find(t.Context(), top, "helm", quiet)
	if err != nil {
		t.Fatal(err)
	}
	r.run(t, "PATH=$PATH:"+helm)
	image := "culvert-" + r.version + "-image.tar"
	on(t, airGapped.names[0], "mkdir -p /root/"+r.version)
	for from, to := range map[string]string{filepath.Join(dir, image): "/root/" + r.version + "/" + image, filepath.Join(dir, "../../bin/culvert"): "/usr/local/bin/culvert"} {
		if err := k8s.Lab.Copy(t.Context(), airGapped.names[0], from, to); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// airGappedWay has the sections of the page for one way to bring the image and to install.
type airGappedWay struct {
	name, bring, install, upgrade, remove string
	registry                              string // empty: the image is imported
}

func (w airGappedWay) follow(t *testing.T, carried []*carriedRelease) {
	first, next := carried[0], carried[1]
	if w.registry != "" {
		serveRegistry(t)
	}
	w.bringImage(t, first)
	first.follow(t, airGappedPage, w.install, w.replacements(first))
	w.await(t, first)
	kubectl(t, "apply", "-f", labPolicy)
	offered(t, intel, "7")
	applyNetworks(t)
	objects := pod("from", airGapped.names[0], "first") + pod("to", airGapped.names[0], "first")
	feed(t, objects, "apply", "-f", "-")
	has := distinct(t, running(t, 2))
	before := attachedVFs(t)
	stream(t, "from", has["to"], func() {
		w.bringImage(t, next)
		next.follow(t, airGappedPage, w.upgrade, w.replacements(next))
		w.await(t, next)
	})
	if after := attachedVFs(t); len(before) != 2 || !slices.Equal(before, after) {
		t.Errorf("the pods had the VFs %v, and have %v", before, after)
	}
	w.wantNothingFetched(t, first, next)
	feed(t, objects, "delete", "--wait", "-f", "-")
	allFree(t, allVFs/2)
	next.follow(t, airGappedPage, w.remove, w.replacements(next))
	gone(t, airGapped.names[0])
	there = airGapped // the next way installs again
	followOnNode(t, "Remove the image from each node", next.version)
	if left := on(t, airGapped.names[0], "ctr -n k8s.io images ls -q | grep /culvert || true"); left != "" {
		t.Errorf("the node still has the image: %s", left)
	}
}

// replacements are the names of the site in place of those on the page.
func (w airGappedWay) replacements(r *carriedRelease) []string {
	return []string{"registry.example.org", siteRegistry, "v0.1.0", r.version}
}

// bringImage runs the commands of the page that bring an image to the node.
func (w airGappedWay) bringImage(t *testing.T, r *carriedRelease) {
	t.Helper()
	said := followOnNode(t, w.bring, r.version, w.replacements(r)...)
	if w.registry != "" && !strings.Contains(said, "@"+r.digest+"\n") {
		t.Errorf("the registry has another digest than %s: %s", r.digest, said)
	}
}

// followOnNode runs the commands of a section on the node, in the folder of a release.
func followOnNode(t *testing.T, section, version string, own ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, airGappedPage))
	if err != nil {
		t.Fatal(err)
	}
	body, err := promises.Section(string(text), section)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, step := range promises.Steps(body) {
		out := on(t, airGapped.names[0], "cd /root/"+version+"; "+strings.NewReplacer(own...).Replace(step.Command))
		t.Logf("%s\n%s", step.Command, out)
		all.WriteString(out)
	}
	return all.String()
}

// serveRegistry starts the site's registry on the node, and puts crane there.
func serveRegistry(t *testing.T) {
	t.Helper()
	dir, err := parts.Find(t.Context(), top, "crane", quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := k8s.Lab.Copy(t.Context(), airGapped.names[0], filepath.Join(dir, "crane"), "/usr/local/bin/crane"); err != nil {
		t.Fatal(err)
	}
	on(t, airGapped.names[0], `mkdir -p /root/registry
		systemd-run --quiet --unit site-registry crane registry serve --address `+siteRegistry+` --disk /root/registry
		for _ in $(seq 60); do ! curl --silent --fail http://`+siteRegistry+`/v2/ || exit 0; sleep 1; done; exit 1`)
}

// await waits until the programs of a release run everywhere. Their pods name the image by its digest.
func (w airGappedWay) await(t *testing.T, r *carriedRelease) {
	t.Helper()
	if err := k8s.AwaitCulvert(t.Context()); err != nil {
		t.Fatal(err)
	}
	image, policy := "localhost/culvert@"+r.digest, "Never"
	if w.registry != "" {
		image, policy = siteRegistry+"/culvert@"+r.digest, "IfNotPresent"
	}
	said := strings.Fields(kubectl(t, "-n", "culvert-system", "get", "daemonset/culvertd", "deployment/culvert-controller",
		"-o", "jsonpath={range .items[*].spec.template.spec.initContainers[*]}{.image} {.imagePullPolicy} {end}{range .items[*].spec.template.spec.containers[*]}{.image} {.imagePullPolicy} {end}"))
	if want := slices.Repeat([]string{image, policy}, len(said)/2); len(said) < 6 || !slices.Equal(said, want) {
		t.Errorf("the pods name %v, want %s and %s", said, image, policy)
	}
	if version := kubectl(t, "-n", "culvert-system", "exec", "daemonset/culvertd", "-c", "culvertd", "--", "culvertd", "--version"); !strings.Contains(version, r.version) {
		t.Errorf("%s runs, want %s", version, r.version)
	}
}

// attachedVFs returns the VFs of the node that are attached, with their owners.
func attachedVFs(t *testing.T) (attached []string) {
	t.Helper()
	var all []api.VF
	if err := json.Unmarshal([]byte(on(t, airGapped.names[0], "culvert vf list -o json")), &all); err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		if v.Phase == "attached" && v.Owner != nil {
			attached = append(attached, fmt.Sprint(v.Name, " ", v.PCI, " ", v.Pool, " ", v.Owner.Name, " ", v.Since))
		}
	}
	return attached
}

// wantNothingFetched fails the test if the node fetched an image from elsewhere than the site's registry.
// For an imported image it asked no registry at all. From the registry it fetched both versions, which
// shows that the test would see it.
func (w airGappedWay) wantNothingFetched(t *testing.T, both ...*carriedRelease) {
	t.Helper()
	pulled := on(t, airGapped.names[0], `journalctl --unit containerd --output cat | grep PullImage || true`)
	pulling := kubectl(t, "get", "events", "-A", "--field-selector", "reason=Pulling", "-o", `jsonpath={range .items[*]}{.message}{"\n"}{end}`)
	for line := range strings.Lines(pulled + pulling) {
		if w.registry == "" || !strings.Contains(line, w.registry+"/culvert@sha256:") {
			t.Errorf("the node fetched an image: %s", line)
		}
	}
	for _, r := range both {
		if w.registry != "" && (!strings.Contains(pulled, r.digest) || !strings.Contains(pulling, r.digest)) {
			t.Errorf("no pull of %s is in containerd's log and the events:\n%s%s", r.digest, pulled, pulling)
		}
	}
}
