package cni

import (
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/suggest"
	"github.com/culvert-net/culvert/internal/vf"
)

// arguments is CNI_ARGS: "KEY=value;KEY=value" (CNI specification, section 2;
// the K8S_ keys are what kubelet's runtimes pass).
type arguments struct {
	podNamespace, podName, podUID string
	mac                           *vf.MAC
	ip, gateway                   string // lists, with commas
}

var argumentKeys = []string{
	"IgnoreUnknown", "K8S_POD_NAMESPACE", "K8S_POD_NAME", "K8S_POD_UID", "K8S_POD_INFRA_CONTAINER_ID", "MAC", "IP", "GATEWAY",
}

// parseArguments reads CNI_ARGS. A key that is not known is an error unless
// IgnoreUnknown is set, as it is for the CNI project's plugins. The error
// wraps errEnvironment.
func parseArguments(s string) (arguments, error) {
	var (
		a       arguments
		unknown string
		ignore  bool
	)
	for _, pair := range strings.Split(s, ";") {
		if pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return a, fmt.Errorf("%w CNI_ARGS: %s: want KEY=value pairs with ';' between them", errEnvironment, excerpt.Quote(pair))
		}
		var err error
		switch key {
		case "IgnoreUnknown":
			ignore, err = parseBool(value)
		case "K8S_POD_NAMESPACE":
			a.podNamespace, err = parseName(value)
		case "K8S_POD_NAME":
			a.podName, err = parseName(value)
		case "K8S_POD_UID":
			a.podUID, err = parseName(value)
		case "K8S_POD_INFRA_CONTAINER_ID":
		case "MAC":
			var mac vf.MAC
			mac, err = vf.ParseUnicastMAC(excerpt.Line(value))
			a.mac = &mac
		case "IP":
			a.ip = excerpt.Line(value)
		case "GATEWAY":
			a.gateway = excerpt.Line(value)
		default:
			unknown = key
		}
		if err != nil {
			return a, fmt.Errorf("%w CNI_ARGS: %s: %w", errEnvironment, key, err)
		}
	}
	if unknown != "" && !ignore {
		near := suggest.DidYouMean(unknown, argumentKeys)
		if near == "" {
			near = "; known are " + strings.Join(argumentKeys, ", ")
		}
		return a, fmt.Errorf("%w CNI_ARGS: unknown key %s%s (IgnoreUnknown=1 lets it pass)", errEnvironment, quoteKey(unknown), near)
	}
	return a, nil
}

// parseName reads the name or the UID of a pod, or the name of its namespace, which ends up in messages,
// tables and the ledger. Runtimes that know no pods leave it empty.
func parseName(s string) (string, error) {
	if s != "" && !config.IsName(s) {
		return "", fmt.Errorf("%s: %s, at most %d", excerpt.Quote(s), config.WantName, config.LongestName)
	}
	return s, nil
}

// quoteKey returns an unknown key for a message.
func quoteKey(s string) string {
	if config.IsName(s) {
		return s
	}
	return excerpt.Quote(s)
}

func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "1", "true":
		return true, nil
	case "0", "false", "":
		return false, nil
	}
	return false, fmt.Errorf("%s: want 1 or 0", excerpt.Quote(s))
}

// ownerOf returns the owner of the VF. Its UID is the CNI container ID, which names the sandbox and
// is unique for all time.
func (a arguments) ownerOf(containerID, ifName string) vf.Owner {
	o := vf.Owner{Kind: vf.OwnerContainer, UID: containerID, Interface: ifName}
	if a.podName != "" {
		o.Kind, o.Name = vf.OwnerPod, a.podName
		if a.podNamespace != "" {
			o.Name = a.podNamespace + "/" + a.podName
		}
	}
	return o
}
