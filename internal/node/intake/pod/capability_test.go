package pod_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// wantIgnored compares the parts of the pod's event NetworkSettingIgnored, of which there is
// one at most.
func (w *world) wantIgnored(parts ...string) {
	w.Helper()
	var got []string
	for _, e := range w.cluster.events {
		if text, ok := strings.CutPrefix(e, "d/a Warning NetworkSettingIgnored "); ok {
			if got != nil {
				w.Errorf("events %q, want one", w.cluster.events)
			}
			got = strings.Split(text, "; ")
		}
	}
	if !slices.EqualFunc(got, parts, strings.Contains) {
		w.Errorf("ignored is %q, want %q", got, parts)
	}
}

// I9: the mac and the ips of a pod's annotation count where the network declares the
// capability, and win over the network's own. Elsewhere they are ignored, with an event.
func TestI9AnnotationCountsByCapability(t *testing.T) {
	const ownMAC, asked = "02:11:22:33:44:01", "02:11:22:33:44:55"
	for name, tc := range map[string]struct {
		capabilities, mac, ips string
		ignored                []string
	}{
		"none":  {``, ownMAC, "172.16.91.2", []string{"ips is asked for", "mac is asked for"}},
		"false": {`"capabilities":{"mac":false,"ips":false},`, ownMAC, "172.16.91.2", []string{"ips is asked for", "mac is asked for"}},
		"mac":   {`"capabilities":{"mac":true},`, asked, "172.16.91.2", []string{"ips is asked for"}},
		"ips":   {`"capabilities":{"ips":true},`, ownMAC, "172.16.91.77", []string{"mac is asked for"}},
		"both":  {`"capabilities":{"mac":true,"ips":true},`, asked, "172.16.91.77", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.network("fast", strings.Replace(sriov, `"name"`, tc.capabilities+`"mac":"`+ownMAC+`","name"`, 1))
			w.asks(`[{"name":"fast","mac":"` + asked + `","ips":["172.16.91.77"]}]`)
			w.add()
			if got := w.status()[1]; got["mac"] != tc.mac || fmt.Sprint(got["ips"]) != "["+tc.ips+"]" {
				t.Errorf("the pod has %v %v, want %s %s", got["mac"], got["ips"], tc.mac, tc.ips)
			}
			w.wantIgnored(tc.ignored...)
		})
	}
}

// I9: the mac and the ips of cni-args count as those of the annotation itself do, for each
// plugin of a network of VFs. Other networks' plugins get them, as by Multus.
func TestI9ArgsCountByCapability(t *testing.T) {
	const own, args = "02:11:22:33:44:01", `"cni-args":{"ips":["172.16.91.77"],"MAC":"02:11:22:33:44:55","k":"v"}`
	for name, tc := range map[string]struct {
		vf, tuning, ips, passed string
		ignored                 []string
	}{
		"none":      {``, ``, "172.16.91.2", `map[k:v]`, []string{"ips is asked for", "mac is asked for"}},
		"ips":       {`"capabilities":{"ips":true},`, ``, "172.16.91.77", `map[k:v]`, []string{"mac is asked for"}},
		"of tuning": {``, `"capabilities":{"mac":true},`, "172.16.91.2", `map[MAC:02:11:22:33:44:55 k:v]`, []string{"ips is asked for"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.network("fast", `{"cniVersion":"1.0.0","plugins":[`+strings.Replace(sriov, `"name"`, tc.vf+`"mac":"`+own+`","name"`, 1)+`,{`+tc.tuning+`"type":"tuning"}]}`)
			w.network("lan", `{"cniVersion":"1.0.0","type":"macvlan"}`)
			w.asks(`[{"name":"fast",` + args + `},{"name":"lan",` + args + `}]`)
			w.add()
			if got := w.status()[1]; got["mac"] != own || fmt.Sprint(got["ips"]) != "["+tc.ips+"]" {
				t.Errorf("the pod has %v %v, want %s %s", got["mac"], got["ips"], own, tc.ips)
			}
			argsOf := func(plugin string) string {
				cni, _ := w.host.config(t, "ADD", plugin)["args"].(map[string]any)
				return fmt.Sprint(cni["cni"])
			}
			if got := argsOf("tuning"); got != tc.passed {
				t.Errorf("tuning got %s, want %s", got, tc.passed)
			}
			if got, want := argsOf("macvlan"), "map[MAC:02:11:22:33:44:55 ips:[172.16.91.77] k:v]"; got != want {
				t.Errorf("macvlan got %s, want %s", got, want)
			}
			w.wantIgnored(tc.ignored...)
		})
	}
}
