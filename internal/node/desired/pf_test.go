package desired

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/culvert-net/culvert/api/v1alpha1"
)

// Addresses of PFs are parsed in the same way from host.yaml and from a NodePolicy.
func TestAddressesOfPFs(t *testing.T) {
	for text, want := range map[string]string{
		"172.16.91.1/24 fd00::1/64":        "[172.16.91.1/24 fd00::1/64]",
		"172.16.91.1":                      "want an address with its prefix length",
		"fe80::1/64":                       "want an address",
		"0.0.0.0/0":                        "want an address",
		"10.0.0.1/8 10.0.0.1/8":            "10.0.0.1/8 is there twice",
		strings.Repeat("10.1.1.1/32 ", 65): "65 addresses are too many",
	} {
		entries := strings.Fields(text)
		host, err := Parse("host.yaml", []byte("pfs: [{name: a, vfs: 1, addresses: ["+strings.Join(entries, ", ")+"]}]"))
		policy, perr := FromPolicy("p", v1alpha1.NodePolicySpec{PFs: []v1alpha1.PFRule{{Name: "a", VFs: intstr.FromInt32(1), Addresses: entries}}})
		for what, got := range map[string]string{"host.yaml": describeAddresses(host, err), "policy": describeAddresses(policy, perr)} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %.40s: %s, want %s", what, text, got, want)
			}
		}
	}
}

// describeAddresses returns the addresses of the first PF, or the error.
func describeAddresses(s Spec, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(s.PFs[0].Want.Addresses)
}
