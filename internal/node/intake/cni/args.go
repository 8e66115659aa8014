package cni

import (
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/suggest"
	"github.com/culvert-net/culvert/internal/vf"
)

// Arguments is CNI_ARGS: "KEY=value;KEY=value" (CNI specification, section 2;
// the K8S_ keys are what kubelet's runtimes pass).
type Arguments struct {
	// Text is what ParseArguments has read, Err why it is wrong. The error wraps errEnvironment. The
	// other fields then have what could be read.
	Text string
	Err  error
	// Namespace, Pod and UID name the pod. They are empty if the runtime knows no pods.
	Namespace, Pod, UID string

	mac         *vf.MAC
	ip, gateway string // lists, with commas
}

var argumentKeys = []string{
	"IgnoreUnknown", "K8S_POD_NAMESPACE", "K8S_POD_NAME", "K8S_POD_UID", "K8S_POD_INFRA_CONTAINER_ID", "MAC", "IP", "GATEWAY",
}

// ParseArguments reads CNI_ARGS. A key that is not known is an error unless
// IgnoreUnknown is set, as it is for the CNI project's plugins.
func ParseArguments(s string) Arguments { return Arguments{}.Add(s) }

// AddArguments returns the text of CNI_ARGS with more arguments, of which the last of a key counts.
func AddArguments(text, more string) string {
	if text == "" || more == "" {
		return text + more
	}
	return text + ";" + more
}

// Add returns a with more arguments in the form of CNI_ARGS. It reads only those.
func (a Arguments) Add(s string) Arguments {
	a.Text = AddArguments(a.Text, s)
	unknown, ignore := "", false
	for _, pair := range strings.Split(s, ";") {
		if pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			a.refuse("%s: want KEY=value pairs with ';' between them", excerpt.Quote(pair))
		}
		var err error
		switch key {
		case "IgnoreUnknown":
			ignore, err = parseBool(value)
		case "K8S_POD_NAMESPACE":
			a.Namespace, err = value, checkName(value)
		case "K8S_POD_NAME":
			a.Pod, err = value, checkName(value)
		case "K8S_POD_UID":
			a.UID, err = value, checkName(value)
		case "K8S_POD_INFRA_CONTAINER_ID":
		case "MAC":
			var mac vf.MAC
			mac, err = vf.ParseUnicastMAC(excerpt.Line(value))
			a.mac = &mac
		case "IP":
			a.ip = value
		case "GATEWAY":
			a.gateway = value
		default:
			unknown = key
		}
		if err != nil {
			a.refuse("%s: %w", key, err)
		}
	}
	if unknown != "" && !ignore {
		near := suggest.DidYouMean(unknown, argumentKeys)
		if near == "" {
			near = "; known are " + strings.Join(argumentKeys, ", ")
		}
		a.refuse("unknown key %s%s (IgnoreUnknown=1 lets it pass)", quoteKey(unknown), near)
	}
	return a
}

// refuse sets the error, unless an earlier part of the text is wrong too.
func (a *Arguments) refuse(format string, args ...any) {
	if a.Err == nil {
		a.Err = fmt.Errorf("%w CNI_ARGS: %w", errEnvironment, fmt.Errorf(format, args...))
	}
}

// checkName refuses a name or UID of a pod, or a name of its namespace, that could not be in messages,
// tables and the ledger. Runtimes that know no pods leave it empty.
func checkName(s string) error {
	if s != "" && !config.IsName(s) {
		return fmt.Errorf("%s: %s, at most %d", excerpt.Quote(s), config.WantName, config.LongestName)
	}
	return nil
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
func (a Arguments) ownerOf(containerID, ifName string) vf.Owner {
	o := vf.Owner{Kind: vf.OwnerContainer, UID: containerID, Interface: ifName}
	if a.Pod != "" {
		o.Kind, o.Name = vf.OwnerPod, a.Pod
		if a.Namespace != "" {
			o.Name = a.Namespace + "/" + a.Pod
		}
	}
	return o
}
