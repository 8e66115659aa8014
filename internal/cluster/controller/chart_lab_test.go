//go:build lab

package controller

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/test/apiserver"
)

const definitions = "network-attachment-definitions.k8s.cni.cncf.io"

// ownDefinitions reports whether a rendered chart has the CRD of NetworkAttachmentDefinitions.
func ownDefinitions(t *testing.T, args ...string) bool {
	t.Helper()
	for _, o := range decodeObjects(t, []byte(templateChart(t, args...))) {
		if o.GetKind() == "CustomResourceDefinition" && o.GetName() == definitions {
			return true
		}
	}
	return false
}

// Where Multus has installed the CRD of NetworkAttachmentDefinitions, the chart leaves it out: Helm
// refuses objects of another owner, and the short names of that CRD may be others. An upgrade keeps
// the CRD that the release installed.
func TestChartUsesTheDefinitionsThatAreThere(t *testing.T) {
	s := apiserver.New(t)
	server := withServer(t, s)
	check := func(what string, want bool, args ...string) {
		t.Helper()
		if got := ownDefinitions(t, args...); got != want {
			t.Errorf("%s: the chart has the CRD: %v, want %v", what, got, want)
		}
	}
	check("without a cluster", true)
	check("without a cluster, left out", false, "--set", "networkAttachmentDefinitions=false")
	check("a cluster without it", true, server...)
	text, err := os.ReadFile("../../../dist/kubernetes/network-attachment-definitions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := decodeObjects(t, text)[0]
	put := func(method, path string) {
		t.Helper()
		body, err := json.Marshal(crd.Object)
		if err != nil {
			t.Fatal(err)
		}
		s.Must(method, path, string(body))
	}
	const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	crd.SetAnnotations(nil)
	put(http.MethodPost, crds)
	check("Multus' own", false, server...)
	check("Multus' own, and the chart's wanted", true, append(server, "--set", "networkAttachmentDefinitions=true")...)
	apiserver.Eventually(t, "the CRD is this release's", func() error {
		if err := s.Do(http.MethodGet, crds+"/"+definitions, "", &crd.Object); err != nil {
			return err
		}
		crd.SetAnnotations(map[string]string{"meta.helm.sh/release-name": "culvert", "meta.helm.sh/release-namespace": "culvert-system"})
		body, err := json.Marshal(crd.Object)
		if err != nil {
			return err
		}
		return s.Do(http.MethodPut, crds+"/"+definitions, string(body), nil)
	})
	check("the release's own", true, server...)
}

// helm uninstall keeps what people declared: Helm leaves every CRD, and the objects with it.
func TestUninstallKeepsWhatPeopleDeclared(t *testing.T) {
	crds := 0
	for _, o := range decodeObjects(t, []byte(templateChart(t))) {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		crds++
		if policy := o.GetAnnotations()["helm.sh/resource-policy"]; policy != "keep" {
			t.Errorf("CRD %s: helm.sh/resource-policy is %q, want keep", o.GetName(), policy)
		}
	}
	if crds != 4 {
		t.Errorf("%d CRDs, want 4", crds)
	}
}

// The chart names the ConfigMap that the nodes read, and gives the right to that one.
func TestChartNamesTheDevicePluginsConfigMap(t *testing.T) {
	text := templateChart(t, "--set", "node.devicePlugin.configMap=openshift-sriov-network-operator/device-plugin-config", "--set", "node.devicePlugin.prefix=openshift.io")
	for _, want := range []string{
		"- --device-plugin-config=openshift-sriov-network-operator/device-plugin-config\n", "- --device-plugin-prefix=openshift.io\n",
		"metadata: {name: culvertd-device-plugin, namespace: openshift-sriov-network-operator}\n", "resourceNames: [device-plugin-config]\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the chart lacks %q", want)
		}
	}
}
