package netannotation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/suggest"
)

// Keys of the JSON form, and of the objects in it.
var (
	elementKeys = []string{
		"name", "namespace", "interface", "interfaceRequest", "mac", "ips", "default-route", "deviceID", "infiniband-guid", "portMappings", "bandwidth", "cni-args",
		"ipam-claim-reference", // of OVN-Kubernetes, which reads the annotation too
	}
	portMappingKeys = []string{"hostPort", "containerPort", "protocol", "hostIP"}
	bandwidthKeys   = []string{"ingressRate", "ingressBurst", "egressRate", "egressBurst"}
)

// foldAnnotation returns the JSON list of an annotation as Go's encoding/json, with which Multus reads
// it, understands it: the case of keys does not matter, and of several that are the same the
// last one counts. Text that is no list of objects stays as it is.
func foldAnnotation(text string) []byte {
	return eachOf([]byte(text), func(element []byte) []byte {
		return foldKeys(element, elementKeys, map[string]func([]byte) []byte{
			"portMappings": func(list []byte) []byte {
				return eachOf(list, func(mapping []byte) []byte { return foldKeys(mapping, portMappingKeys, nil) })
			},
			"bandwidth": func(object []byte) []byte { return foldKeys(object, bandwidthKeys, nil) },
		})
	})
}

// eachOf changes each element of a JSON list.
func eachOf(list []byte, change func([]byte) []byte) []byte {
	var all []json.RawMessage
	if err := json.Unmarshal(list, &all); err != nil || all == nil {
		return list
	}
	for i := range all {
		all[i] = change(all[i])
	}
	out, err := json.Marshal(all)
	if err != nil {
		return list
	}
	return out
}

// foldKeys gives the keys of a JSON object the case that they have in known, and changes the
// values of some.
func foldKeys(object []byte, known []string, change map[string]func([]byte) []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(object))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return object
	}
	all := map[string]json.RawMessage{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return object
		}
		name := fmt.Sprint(key)
		if i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, name) }); i >= 0 {
			name = known[i]
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return object
		}
		if to := change[name]; to != nil {
			value = to(value)
		}
		all[name] = value
	}
	out, err := json.Marshal(all)
	if err != nil {
		return object
	}
	return out
}

// suggestName returns the unknown key of an element that most probably stands for name, as the tail of
// a message.
func suggestName(keys []string) string {
	for _, key := range keys {
		if !slices.Contains(elementKeys, key) && suggest.Nearest(key, elementKeys) == "name" {
			return fmt.Sprintf(": did you mean name by %s?", excerpt.Quote(key))
		}
	}
	return ""
}

// mostIgnored is how many unknown keys of an element are named: finding the nearest known key
// takes time, and a pod's author may write thousands.
const mostIgnored = 8

// unknownKeys returns a message for each key of an element that is not of the format: that it is
// ignored, and the nearest key of the format.
func unknownKeys(e Element, keys []string) (out []string) {
	left := 0
	for _, key := range keys {
		switch {
		case slices.Contains(elementKeys, key):
		case len(out) == mostIgnored:
			left++
		default:
			out = append(out, fmt.Sprintf("network %s: key %s of the annotation is unknown and ignored%s", e, excerpt.Quote(key), suggest.DidYouMean(key, elementKeys)))
		}
	}
	if left > 0 {
		out = append(out, fmt.Sprintf("network %s: %d more keys are unknown and ignored", e, left))
	}
	return out
}
