package cni

import (
	"context"
	"strings"
	"testing"

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

const kubernetesArgs = "IgnoreUnknown=true;K8S_POD_NAMESPACE=d;K8S_POD_NAME=p;K8S_POD_UID=u1"

// Multus copies the mac and the ips of a pod's annotation into CNI_ARGS, and its cni-args into
// args.cni, whether or not the network declares the capabilities. They count as with the SR-IOV CNI
// plugin, host-local and tuning, in whatever case the keys of args.cni are written. Two MAC addresses
// are refused.
func TestMACAndIPsOfPodsCount(t *testing.T) {
	const own, asked, other = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03"
	const both = ";MAC=" + asked + ";IP=10.0.0.5"
	for name, tc := range map[string]struct {
		args, config string
		mac, ip      string
		refused      string
	}{
		"nothing is asked for":        {"", ``, own, "10.0.0.2/29", ""},
		"CNI_ARGS":                    {both, ``, asked, "10.0.0.5/29", ""},
		"capabilities that are false": {both, `"capabilities":{"mac":false,"ips":false},`, asked, "10.0.0.5/29", ""},
		"capabilities":                {both, `"capabilities":{"mac":true,"ips":true},"runtimeConfig":{"mac":"` + asked + `","ips":["10.0.0.5"]},`, asked, "10.0.0.5/29", ""},
		"args.cni":                    {"", `"args":{"cni":{"mac":"` + asked + `","ips":["10.0.0.5"]},"x":{"y":1}},`, asked, "10.0.0.5/29", ""},
		"args.cni in another case":    {"", `"args":{"cni":{"MAC":"` + asked + `","IPs":["10.0.0.5"]}},`, asked, "10.0.0.5/29", ""},
		"the same everywhere":         {both, `"args":{"cni":{"mac":"02-00-00-00-00-02","ips":["10.0.0.5"]}},"runtimeConfig":{"mac":"` + asked + `"},`, asked, "10.0.0.5/29", ""},
		"another MAC by args.cni":     {both, `"args":{"cni":{"Mac":"` + other + `"}},`, "", "", "MAC address " + asked + " is asked for, and args.cni asks for " + other},
		"two MACs by args.cni":        {"", `"args":{"cni":{"Mac":"` + asked + `","mac":"` + other + `"}},`, "", "", "ask for one"},
		"ips that are no list":        {"", `"args":{"cni":{"ips":"10.0.0.5"}},`, "", "", "want a list of strings"},
		"a group MAC address":         {";MAC=01:00:5e:00:00:01", ``, "", "", "CNI_ARGS: MAC"},
		"an address of no range":      {";IP=10.9.0.5", ``, "", "", "in none of the network's ranges"},
	} {
		for _, args := range []string{kubernetesArgs, "IgnoreUnknown=true"} { // a pod, and a container outside Kubernetes
			t.Run(name+" "+args, func(t *testing.T) {
				cluster, h := &events{}, New(partsOf(newMemory(1)))
				h.Cluster = cluster
				r := invocation(cmdAdd, with(tc.config+`"mac":"`+own+`",`+pool))
				r.Args = args + tc.args
				out, err := h.Run(t.Context(), callOf(r), nil)
				switch {
				case tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)):
					t.Errorf("want a refusal that says %q, got %v, %s", tc.refused, err, out)
				case tc.refused == "" && (err != nil || !strings.Contains(string(out), tc.mac) || !strings.Contains(string(out), `"`+tc.ip+`"`)):
					t.Errorf("want %s %s, got %v, %s", tc.mac, tc.ip, err, out)
				}
				if len(cluster.texts) > 0 {
					t.Errorf("events %q", cluster.texts)
				}
			})
		}
	}
}

// The CHECK that Multus makes has no MAC address in CNI_ARGS, so the ADD may have had another one than
// the network names. A CHECK by Culvert itself has the arguments of the ADD.
func TestCheckByMultusDoesNotCompareTheMACOfTheNetwork(t *testing.T) {
	const network, asked = "02:00:00:00:00:01", "02:00:00:00:00:02"
	for name, tc := range map[string]struct{ command, args, definition, want string }{
		"ADD":                       {cmdAdd, kubernetesArgs, "", network},
		"CHECK by Multus":           {cmdCheck, kubernetesArgs, "", ""},
		"CHECK by Multus, with MAC": {cmdCheck, kubernetesArgs + ";MAC=" + asked, "", asked},
		"CHECK by Culvert":          {cmdCheck, kubernetesArgs, "d/net", network},
		"CHECK outside Kubernetes":  {cmdCheck, "", "", network},
	} {
		r := invocation(tc.command, with(`"mac":"`+network+`"`))
		r.Args, r.Definition = tc.args, tc.definition
		mac, err := callOf(r).wantedMAC()
		got := ""
		if mac != nil {
			got = mac.String()
		}
		if err != nil || got != tc.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tc.want)
		}
	}
}
