// annotations reads a JSON list of network annotations from its standard input and writes what
// Multus makes of each, for a pod in namespace default: its elements, or the error.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"gopkg.in/k8snetworkplumbingwg/multus-cni.v4/pkg/k8sclient"
	"gopkg.in/k8snetworkplumbingwg/multus-cni.v4/pkg/types"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type answer struct {
	Networks []*types.NetworkSelectionElement `json:"networks"`
	Error    string                           `json:"error,omitempty"`
}

func main() {
	var annotations []string
	if err := json.NewDecoder(os.Stdin).Decode(&annotations); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	out := make([]answer, len(annotations))
	for i, text := range annotations {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": text}}}
		var err error
		if out[i].Networks, err = k8sclient.GetPodNetwork(pod); err != nil {
			out[i].Error = err.Error()
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
