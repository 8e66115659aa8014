//go:build kubernetes

package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// I9: a pod has the MAC address and the addresses that it asks for, in networks that declare no
// capability. A pod that asks for one of them meanwhile does not start, and an event says why. The
// pod sees its metadata in /etc/podnetinfo.
func TestI9PodsChooseTheirAddresses(t *testing.T) {
	need(t, twoNodes)
	chooseAddresses(t, "worker01")
}

// chooseAddresses runs the pod of testdata/chosen.yaml on a node, and others that ask for what it has.
func chooseAddresses(t *testing.T, node string) {
	t.Helper()
	offered(t, intel, "7")
	objects, err := os.ReadFile("testdata/chosen.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, strings.ReplaceAll(string(objects), "NODE", node))
	ready(t, "pod/chooser")
	wantChosen(t)
	refusals := map[string]string{
		"same-mac":     "MAC address 02:ca:fe:00:00:11: held by pod default/chooser",
		"same-address": "address 10.96.7.77: held by pod default/chooser",
	}
	apply(t, pod("same-mac", node, `[{"name": "fixed", "mac": "02-ca-fe-00-00-11", "ips": ["10.96.6.78/24"]}]`)+pod("same-address", node, `[{"name": "ranged", "ips": ["10.96.7.77/24"]}]`))
	for name, why := range refusals {
		eventually(t, "an event says why pod "+name+" does not start", func() error {
			out, err := k8s.Kubectl(t.Context(), "get", "events", "--field-selector", "type=Warning,involvedObject.name="+name, "--output", "jsonpath={.items[*].message}")
			if err == nil && !strings.Contains(string(out), why) {
				err = fmt.Errorf("there is no %q in %q", why, out)
			}
			return err
		})
		if phase := kubectl(t, "get", "pod", name, "--output", "jsonpath={.status.phase}"); phase != "Pending" {
			t.Errorf("I9: pod %s is %s", name, phase)
		}
	}
	wantPodInfo(t)
	kubectl(t, "delete", "pod", "chooser", "same-mac", "same-address", "--wait")
	allFree(t, allVFs/len(twoNodes.names)*len(there.names))
}

// chosenStatus has what the network-status and the kernel say of an interface of pod chooser.
type chosenStatus struct {
	Interface, MAC string
	IPs            []string
}

// wantChosen checks the interfaces of pod chooser, by its network-status and by the kernel.
func wantChosen(t *testing.T) {
	t.Helper()
	var status []chosenStatus
	eventually(t, "pod chooser has its network-status", func() error {
		text := kubectl(t, "get", "pod", "chooser", "--output", `jsonpath={.metadata.annotations.k8s\.v1\.cni\.cncf\.io/network-status}`)
		return json.Unmarshal([]byte(text), &status)
	})
	var has []chosenStatus
	var links []struct {
		Name      string `json:"ifname"`
		MAC       string `json:"address"`
		Addresses []struct {
			Family, Local string
			Prefixlen     int
		} `json:"addr_info"`
	}
	if err := json.Unmarshal([]byte(kubectl(t, "exec", "chooser", "--", "ip", "-j", "addr", "show")), &links); err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if !strings.HasPrefix(l.Name, "net") {
			continue
		}
		one := chosenStatus{Interface: l.Name, MAC: l.MAC}
		for _, a := range l.Addresses {
			if a.Family == "inet" && a.Prefixlen == 24 {
				one.IPs = append(one.IPs, a.Local)
			}
		}
		has = append(has, one)
	}
	slices.SortFunc(has, func(a, b chosenStatus) int { return strings.Compare(a.Interface, b.Interface) })
	if len(status) != 3 || len(has) != 2 {
		t.Fatalf("pod chooser has the interfaces %+v, and the network-status %+v", has, status)
	}
	want := []chosenStatus{
		{Interface: "net1", MAC: "02:ca:fe:00:00:11", IPs: []string{"10.96.6.77"}},
		{Interface: "net2", MAC: has[1].MAC, IPs: []string{"10.96.7.77"}},
	}
	if d := cmp.Diff(want, has); d != "" {
		t.Errorf("the kernel: -want +got:\n%s", d)
	}
	if d := cmp.Diff(want, status[1:]); d != "" {
		t.Errorf("the network-status: -want +got:\n%s", d)
	}
}

// wantPodInfo waits until the files of /etc/podnetinfo have the labels and annotations of pod
// chooser, with its network-status, which is newer than the container. Then it checks the files
// about huge pages.
func wantPodInfo(t *testing.T) {
	t.Helper()
	eventually(t, "/etc/podnetinfo of pod chooser has its labels and annotations", func() error {
		var pod struct {
			Metadata struct{ Labels, Annotations map[string]string }
		}
		if err := k8s.Get(t.Context(), &pod, "pod", "chooser"); err != nil {
			return err
		}
		if pod.Metadata.Annotations[statusAnnotation] == "" {
			return errors.New("it has no network-status")
		}
		return errors.Join(seesMetadata("labels", pod.Metadata.Labels), seesMetadata("annotations", pod.Metadata.Annotations))
	})
	pages := kubectl(t, "exec", "chooser", "--", "bash", "-c", "cd /etc/podnetinfo; head hugepages_2M_*_$CONTAINER_NAME")
	if want := "==> hugepages_2M_limit_main <==\n2\n==> hugepages_2M_request_main <==\n2"; pages != want {
		t.Errorf("the files of huge pages are %q, want %q", pages, want)
	}
}

// seesMetadata returns an error unless a file of /etc/podnetinfo of pod chooser has these values,
// among others: the kubelet adds annotations of its own.
func seesMetadata(file string, want map[string]string) error {
	out, err := k8s.Kubectl(context.Background(), "exec", "chooser", "--", "cat", "/etc/podnetinfo/"+file)
	if err != nil {
		return err
	}
	has := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if has[key], err = strconv.Unquote(value); err != nil {
			return fmt.Errorf("%s: %q: %w", file, line, err)
		}
	}
	for key, value := range want {
		if has[key] != value {
			return fmt.Errorf("%s: %s is %q, want %q", file, key, has[key], value)
		}
	}
	return nil
}
