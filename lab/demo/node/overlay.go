package node

import (
	"context"
	"fmt"
	"strconv"
)

// UplinkPF is the PF whose wire carries the overlay.
const UplinkPF = "enp1s0"

// OverlayDir holds the overlay's CNI configuration, OverlayNetwork is its name.
const (
	OverlayDir     = "/etc/cni/overlay.d"
	OverlayNetwork = "cbr0"
)

// vtepMAC returns an address that Flannel would draw by lot and announce to the others.
func vtepMAC(number int) string { return fmt.Sprintf("02:f1:a0:00:00:%02x", number) }

// JoinOverlay gives the node the parts of Flannel's VXLAN backend: the device flannel.1 (VNI 1,
// UDP port 8472, MTU 1450) over the address of a PF, a route with its neighbour and forwarding
// entry to each other node's pods, and a CNI configuration that makes veths on the bridge cni0.
// Flannel reads those values from its store; here they are fixed.
//
// Checksums within the tunnel are computed in software: the emulated NIC claims to compute them,
// but sends wrong ones, so that pings pass and TCP does not. Real clusters switch this offload off
// for the same reason on NICs and kernels with that fault.
func (n Node) JoinOverlay(ctx context.Context, count int) error {
	args := []string{UplinkPF, strconv.Itoa(n.Number), vtepMAC(n.Number)}
	for other := 1; other <= count; other++ {
		if other != n.Number {
			args = append(args, strconv.Itoa(other), vtepMAC(other))
		}
	}
	if _, err := n.Script(ctx, "join the overlay", `
		uplink=$1 n=$2 mac=$3
		shift 3
		ip link set "$uplink" up
		ip address replace "172.31.0.$n/24" dev "$uplink"
		ip link add flannel.1 address "$mac" mtu 1450 type vxlan id 1 dev "$uplink" local "172.31.0.$n" dstport 8472 nolearning
		ip address add "10.244.$n.0/32" dev flannel.1
		ethtool --features flannel.1 tx-checksum-ip-generic off >/dev/null
		ip link set flannel.1 up
		sysctl --quiet --write net.ipv4.ip_forward=1
		while [ $# -gt 0 ]; do
			ip neighbor add "10.244.$1.0" lladdr "$2" dev flannel.1 nud permanent
			bridge fdb append "$2" dev flannel.1 dst "172.31.0.$1"
			ip route add "10.244.$1.0/24" via "10.244.$1.0" dev flannel.1 onlink
			shift 2
		done`, args...); err != nil {
		return err
	}
	config := fmt.Sprintf(overlayConfig, OverlayNetwork, n.Number)
	return n.WriteFile(ctx, OverlayDir+"/10-flannel.conflist", []byte(config))
}

// overlayConfig is the configuration that Flannel's plugin passes to its delegate for the usual
// kube-flannel configuration.
const overlayConfig = `{
  "cniVersion": "1.0.0",
  "name": %q,
  "plugins": [{
    "type": "bridge",
    "bridge": "cni0",
    "mtu": 1450,
    "isGateway": true,
    "isDefaultGateway": true,
    "hairpinMode": true,
    "ipMasq": false,
    "ipam": {
      "type": "host-local",
      "ranges": [[{"subnet": "10.244.%d.0/24"}]],
      "routes": [{"dst": "10.244.0.0/16"}]
    }
  }]
}
`
