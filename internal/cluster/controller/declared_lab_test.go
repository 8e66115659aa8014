//go:build lab

package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/test/apiserver"
)

// I10, on a real API server: the controller's own rights are enough to compare the
// requests of nodes with the network's NetworkAttachmentDefinition.
func TestI10RequestsAreComparedWithTheNetworkOnARealAPIServer(t *testing.T) {
	config := apiServer(t)
	c, err := client.New(config, client.Options{Scheme: Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	install(t, c, "Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
	serveController(t, Config{Kube: asController(config), Metrics: "0"})
	namespace := definitionOf("", "red", "")
	namespace.SetAPIVersion("v1")
	namespace.SetKind("Namespace")
	err = errors.Join(c.Create(t.Context(), namespace), c.Create(t.Context(), newNode("a", nil)), c.Create(t.Context(), newNode("b", nil)))
	if err != nil {
		t.Fatal(err)
	}
	apiserver.Eventually(t, "the network", func() error { // its CRD takes a moment
		return client.IgnoreAlreadyExists(c.Create(t.Context(), networkWith(t, "red", `{"type": "host-local", "subnet": "172.16.91.0/24"}`)))
	})
	for _, s := range []client.Object{
		requesting("a", []ipam.Run{run("172.16.91.2", "172.16.91.254")}),
		requesting("b", []ipam.Run{run("10.0.0.2", "10.0.0.254")}),
	} {
		if err := c.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	apiserver.Eventually(t, "node a is granted addresses and node b is refused", func() error {
		answerRoll(t, c)
		granted, outside := poolAndOutside(t, c)
		if text := strings.Join(granted, ";"); text != "a 172.16.91.2-172.16.91.17" || !strings.HasPrefix(outside, "node b requests 10.0.0.2-10.0.0.254, which is refused") {
			return fmt.Errorf("I10: granted %q, outside %q", text, outside)
		}
		return nil
	})
}
