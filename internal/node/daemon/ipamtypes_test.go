package daemon

import (
	"testing"

	"github.com/culvert-net/culvert/internal/network/ipam"
	"github.com/culvert-net/culvert/internal/node"
)

// The list of IPAM plugins reaches the handler of networks.
func TestIPAMTypesReachTheHandler(t *testing.T) {
	types, err := ipam.ParseTypes([]string{"nv-ipam"})
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Config: Config{Cluster: ClusterConfig{IPAMTypes: types}}, node: node.New(node.Config{})}
	if err := s.newCNI().IPAMTypes.Check("nv-ipam"); err != nil {
		t.Error(err)
	}
}
