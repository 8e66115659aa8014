package migrate

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// whys returns the reasons of a plan's steps.
func whys(p Plan) string {
	var out []string
	for _, s := range p.Steps {
		out = append(out, s.Why)
	}
	return strings.Join(out, "\n")
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// User-defined injections are not served: the conversion names each with its annotations, and the plan
// has them as problems.
func TestInjectionsAreNamed(t *testing.T) {
	const networks = `{"op": "add", "path": "/metadata/annotations", "value": {"k8s.v1.cni.cncf.io/networks": "sriov-net", "a": "b"}}`
	for name, tc := range map[string]struct {
		configMap, key, text string
		want                 []string
	}{
		"one": {injectorConfigMap, "config.json", `{"user-defined-injections": {"feature_sriov": ` + networks + `}}`, []string{
			`data.config.json.user-defined-injections.feature_sriov: not served: pods with the label "feature_sriov=true" get no annotations by it: write "a: b", "k8s.v1.cni.cncf.io/networks: sriov-net" into these pods' templates`,
		}},
		"two": {injectorConfigMap, "config.json", `{"user-defined-injections": {"b": ` + networks + `, "a": {"op": "remove"}}}`, []string{
			`data.config.json.user-defined-injections.a: not served: Culvert patches no pods that have the label "a=true"`, `data.config.json.user-defined-injections.b: not served: pods with the label "b=true"`,
		}},
		"the earlier form":      {injectorConfigMapOlder, "nri-inject", networks, []string{`data.nri-inject: not served: pods with the label "nri-inject=true" get no annotations by it`}},
		"no JSON":               {injectorConfigMap, "config.json", `{`, []string{"data.config.json: it cannot be read: "}},
		"a part that is no map": {injectorConfigMap, "config.json", `{"user-defined-injections": [1]}`, []string{"data.config.json: it cannot be read: "}},
		"an injection that is no patch": {injectorConfigMap, "config.json", `{"user-defined-injections": {"a": 1}}`, []string{
			`data.config.json.user-defined-injections.a: not served: Culvert patches no pods that have the label "a=true"`,
		}},
		"switches":            {injectorConfigMap, "config.json", `{"features": {"enableHugePageDownApi": true, "enableHonorExistingResources": true}}`, []string{"data.config.json.features.enableHonorExistingResources: no equivalent: the devices that a pod's containers request already count"}},
		"switches, off":       {injectorConfigMap, "config.json", `{"features": {"enableHugePageDownApi": false, "enableHonorExistingResources": false}}`, nil},
		"nothing":             {injectorConfigMap, "other", `x`, nil},
		"another's ConfigMap": {"other", "config.json", `{"user-defined-injections": {"a": ` + networks + `}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := Object{Kind: KindConfigMap, Namespace: "nri", Name: tc.configMap, Data: map[string]string{tc.key: tc.text}}
			check := func(what string, notes []Note) {
				t.Helper()
				var got []string
				for _, n := range notes {
					if n.Lost {
						got = append(got, n.String())
					}
				}
				isWanted := func(i int) bool { return strings.HasPrefix(got[i], "ConfigMap nri/"+tc.configMap+": "+tc.want[i]) }
				if len(got) != len(tc.want) || slices.ContainsFunc(slices.Collect(indexes(got)), func(i int) bool { return !isWanted(i) }) {
					t.Errorf("%s: %q\nwant %q", what, got, tc.want)
				}
			}
			check("convert", Convert([]Object{o}, Options{}).Notes)
			check("plan", MakePlan(Cluster{HasNetworks: true, Objects: []Object{o}}, Options{}).Problems)
			operator := stack()
			operator.Objects = append(operator.Objects, o)
			check("plan beside the operator", MakePlan(operator, Options{}).Problems)
		})
	}
}

// indexes yields the indexes of a list.
func indexes(all []string) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for i := range all {
			if !yield(i) {
				return
			}
		}
	}
}

// The plan gives the controller the injector's keys, and names what it adds to requests.
func TestPlanKeepsResourceNameKeys(t *testing.T) {
	const own = "k8s.v1.cni.cncf.io/resourceName"
	for name, tc := range map[string]struct {
		args, controller []string
		want             string
		lost             []string
	}{
		"none":            {args: []string{"-bind-address=0.0.0.0"}},
		"its default":     {args: []string{"--network-resource-name-keys=" + own}},
		"two":             {args: []string{"-network-resource-name-keys", own + ",example.org/resource", "-logtostderr"}, want: own + ",example.org/resource"},
		"another alone":   {args: []string{"--network-resource-name-keys=example.org/resource"}, want: "example.org/resource"},
		"for a shell":     {args: []string{"--network-resource-name-keys=" + own + ",a|e"}, lost: []string{`network-resource-name-keys "a|e": no equivalent`}},
		"installed":       {args: []string{"--network-resource-name-keys=" + own + ",a"}, controller: []string{"--network-resource-name-keys=a," + own}},
		"installed, old":  {args: []string{"--network-resource-name-keys=" + own + ",a"}, controller: []string{"--drain-nodes=1"}, want: own + ",a"},
		"adds":            {args: []string{"--honor-resources", "--insecure"}, lost: []string{"honor-resources: no equivalent: the devices that a pod's containers request already count"}},
		"does not add":    {args: []string{"--honor-resources=false"}},
		"adds, in a word": {args: []string{"-honor-resources=true"}, lost: []string{"honor-resources: no equivalent"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := Cluster{HasNetworks: true, Workloads: []Workload{{Kind: "DaemonSet", Namespace: "nri", Name: "network-resources-injector", Replicas: 1, Args: tc.args}}}
			if tc.controller != nil {
				c.Installed, c.Workloads = true, append(c.Workloads, Workload{Kind: "Deployment", Namespace: "culvert-system", Name: "culvert-controller", Args: tc.controller})
			}
			p := MakePlan(c, Options{})
			_, added := edited(t, p)
			var want []string
			if tc.want != "" {
				want = []string{"- --network-resource-name-keys=" + tc.want}
			}
			if d := cmp.Diff(want, added); d != "" || len(p.Problems) != len(tc.lost) {
				t.Errorf("-want +got\n%s\n%v", d, p.Problems)
			}
			for i, lost := range tc.lost {
				if !strings.HasPrefix(p.Problems[i].String(), "DaemonSet nri/network-resources-injector: "+lost) {
					t.Errorf("%s, want %s", p.Problems[i], lost)
				}
			}
			if strings.Contains(whys(p), "--set 'controller.networkResourceNameKeys={"+tc.want+"}'") != (tc.want != "") {
				t.Error(whys(p))
			}
		})
	}
}
