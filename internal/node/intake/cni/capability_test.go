package cni

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/vf"
)

// events is a cluster with one pod, which asks for no network by annotation.
type events struct{ texts []string }

func (e *events) Pod(_ context.Context, namespace, name, uid string) (api.Pod, error) {
	return api.Pod{Namespace: namespace, Name: name, UID: uid}, nil
}

func (e *events) Network(context.Context, string, string) (api.NetworkDefinition, error) {
	return api.NetworkDefinition{}, vf.ErrNotFound
}

func (e *events) PodEvent(p api.Pod, _, reason, text string) {
	e.texts = append(e.texts, p.UID+" "+reason+" "+text)
}

// I9: Multus copies the cni-args of a pod's annotation into args.cni. The addresses in args.cni
// count only if the network declares the capability. Otherwise they reach no plugin that gets the
// configuration, in whatever case the key is written.
func TestI9ArgsOfPodsCountByCapability(t *testing.T) {
	const kubernetes = "IgnoreUnknown=true;K8S_POD_NAMESPACE=d;K8S_POD_NAME=p;K8S_POD_UID=u1"
	for name, tc := range map[string]struct {
		args, config, ip string
		kept             string // what of args.cni is left
		events           int
	}{
		"none":               {kubernetes, `"args":{"cni":{"ips":["10.0.0.5"],"k":"v"},"x":{"y":1}}`, "10.0.0.2/29", `"args":{"cni":{"k":"v"},"x":{"y":1}}`, 1},
		"another case":       {kubernetes, `"args":{"cni":{"IPS":["10.0.0.5"],"Mac":"02:00:00:00:00:02"}}`, "10.0.0.2/29", `"args":{"cni":{}}`, 2},
		"ips":                {kubernetes, `"capabilities":{"ips":true},"args":{"cni":{"ips":["10.0.0.5"]}}`, "10.0.0.5/29", `"args":{"cni":{"ips":["10.0.0.5"]}}`, 0},
		"outside Kubernetes": {"", `"args":{"cni":{"ips":["10.0.0.5"]}}`, "10.0.0.5/29", `"args":{"cni":{"ips":["10.0.0.5"]}}`, 0},
		"no list":            {kubernetes, `"args":{"cni":{"ips":"10.0.0.5"}}`, "10.0.0.2/29", `"args":{"cni":{}}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, engine := &events{}, newMemory(1)
			h := New(partsOf(engine))
			h.Cluster = cluster
			r := invocation(cmdAdd, with(tc.config+`,`+pool))
			r.Args = tc.args
			out, err := h.Run(t.Context(), callOf(r), nil)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(out), `"`+tc.ip+`"`) || len(cluster.texts) != tc.events {
				t.Errorf("want %s and %d events, got %s and %q", tc.ip, tc.events, out, cluster.texts)
			}
			for _, rec := range engine.leases {
				if !strings.Contains(string(rec.Lease.Request), tc.kept) {
					t.Errorf("the lease keeps %s, want %s", rec.Lease.Request, tc.kept)
				}
			}
		})
	}
}

// I9: the mac and the ips of a pod count only where the network declares the
// capability, although Multus always copies them into CNI_ARGS. Those of a container
// outside Kubernetes always count.
func TestI9ArgumentsOfPodsCountByCapability(t *testing.T) {
	const own, asked, kubernetes = "02:00:00:00:00:01", "02:00:00:00:00:02", "IgnoreUnknown=true;K8S_POD_NAMESPACE=d;K8S_POD_NAME=p;K8S_POD_UID=u1;"
	for name, tc := range map[string]struct {
		args, capabilities, mac, ip string
		ignored                     []string
	}{
		"none":                 {kubernetes, ``, own, "10.0.0.2/29", []string{"ips", "mac"}},
		"false":                {kubernetes, `"capabilities":{"mac":false,"ips":false},`, own, "10.0.0.2/29", []string{"ips", "mac"}},
		"mac":                  {kubernetes, `"capabilities":{"mac":true},`, asked, "10.0.0.2/29", []string{"ips"}},
		"ips":                  {kubernetes, `"capabilities":{"ips":true},`, own, "10.0.0.5/29", []string{"mac"}},
		"outside Kubernetes":   {"", ``, asked, "10.0.0.5/29", nil},
		"both, and of another": {kubernetes, `"capabilities":{"mac":true,"ips":true,"portMappings":true},`, asked, "10.0.0.5/29", nil},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &events{}
			h := New(partsOf(newMemory(1)))
			h.Cluster = cluster
			r := invocation(cmdAdd, with(tc.capabilities+`"mac":"`+own+`",`+pool))
			r.Args = tc.args + "MAC=" + asked + ";IP=10.0.0.5"
			params, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			v, err := h.Serve(t.Context(), params, nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp := v.(api.CNIResponse); !strings.Contains(string(resp.Stdout), tc.mac) || !strings.Contains(string(resp.Stdout), `"`+tc.ip+`"`) { //nolint:forcetypeassert // Serve's contract
				t.Errorf("want %s %s, got %s", tc.mac, tc.ip, resp.Stdout)
			}
			var want []string
			for _, key := range tc.ignored {
				want = append(want, "u1 NetworkSettingIgnored network net: "+key+" is asked for")
			}
			got := slices.Clone(cluster.texts)
			for i := range got {
				got[i], _, _ = strings.Cut(got[i], ",")
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("events, -want +got\n%s", d)
			}
		})
	}
}
