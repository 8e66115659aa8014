// pciaddress prints the PCI address that KubeVirt finds for a device of a virtual machine. KubeVirt reads it
// from the metadata files of a claim's request, below the folder that is the first argument. The second is
// the virtual machine's list of claims in JSON; the third is the name of one of them, and the fourth that of
// a request.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/kubevirt/pkg/dra"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "want FOLDER CLAIMS CLAIM REQUEST")
		os.Exit(2)
	}
	var claims []v1.VirtualMachineInstanceResourceClaim
	err := json.Unmarshal([]byte(os.Args[2]), &claims)
	address := ""
	if err == nil {
		address, err = dra.GetPCIAddressForClaim(os.Args[1], claims, os.Args[3], os.Args[4])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(address)
}
