// whereabouts gives out addresses by the readers and the allocator of the IPAM plugin of that name.
// It keeps its reservations in the file that STATE names, in place of a cluster. FLAT names the file
// with the node's part of the configuration. It serves ADD and DEL as a CNI plugin.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/allocate"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/config"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	ipam, version, err := config.LoadIPAMConfig(text, os.Getenv("CNI_ARGS"), os.Getenv("FLAT"))
	if err != nil {
		return err
	}
	reserved := map[string][]types.IPReservation{} // by range
	if text, err := os.ReadFile(os.Getenv("STATE")); err == nil {
		if err := json.Unmarshal(text, &reserved); err != nil {
			return err
		}
	}
	container, ifName := os.Getenv("CNI_CONTAINERID"), os.Getenv("CNI_IFNAME")
	var ips []net.IPNet
	for _, r := range ipam.IPRanges {
		if os.Getenv("CNI_COMMAND") == "DEL" {
			reserved[r.Range], _ = allocate.DeallocateIP(reserved[r.Range], container, ifName)
			continue
		}
		var ip net.IPNet
		// container stands for the pod, too.
		if ip, reserved[r.Range], err = allocate.AssignIP(r, reserved[r.Range], container, container, ifName); err != nil {
			return err
		}
		ips = append(ips, ip)
	}
	state, err := json.Marshal(reserved)
	if err == nil {
		err = os.WriteFile(os.Getenv("STATE"), state, 0o600)
	}
	if err != nil || os.Getenv("CNI_COMMAND") == "DEL" {
		return err
	}
	return printResult(ipam, version, ips)
}

// printResult prints the result as the plugin makes it of the addresses (cmdAdd).
func printResult(ipam *types.IPAMConfig, version string, ips []net.IPNet) error {
	result := &current.Result{CNIVersion: version, DNS: ipam.DNS, Routes: ipam.Routes}
	for _, ip := range ips {
		result.IPs = append(result.IPs, &current.IPConfig{Address: ip, Gateway: ipam.Gateway})
	}
	for _, a := range ipam.Addresses {
		result.IPs = append(result.IPs, &current.IPConfig{Address: a.Address, Gateway: a.Gateway})
	}
	if len(result.IPs) == 0 {
		return errors.New("no address: the caller refuses such a result")
	}
	out, err := result.GetAsVersion(version)
	if err != nil {
		return err
	}
	return out.PrintTo(os.Stdout)
}
