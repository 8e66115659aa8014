package migrate

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// The ConfigMaps of network-resources-injector: the newest one has a JSON object with switches and
// injections under commonKey, the earlier one has an injection under each key.
const (
	injectorConfigMap      = "nri-control-switches"
	injectorConfigMapOlder = "nri-user-defined-injections"
)

// isAnnotationKey matches keys of annotations, which a shell and sed take as they are.
var isAnnotationKey = regexp.MustCompile(`^([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9][-A-Za-z0-9_.]*$`)

// isInjectorConfig reports whether an object is a ConfigMap of network-resources-injector.
func isInjectorConfig(o Object) bool {
	return o.Kind == KindConfigMap && (o.Name == injectorConfigMap || o.Name == injectorConfigMapOlder)
}

// injection is a user-defined injection: a JSON patch of pods with the label that is its key.
type injection struct {
	Value map[string]any `json:"value"`
}

// loseInjections notes what network-resources-injector does by a ConfigMap and Culvert does not.
func (c *converter) loseInjections(o Object) {
	injections, where := map[string]json.RawMessage{}, "data."
	if o.Name == injectorConfigMapOlder {
		for key, text := range o.Data {
			injections[key] = json.RawMessage(text)
		}
	} else if text := o.Data[commonKey]; text != "" {
		where += commonKey + ".user-defined-injections."
		var config struct {
			Features   map[string]bool            `json:"features"`
			Injections map[string]json.RawMessage `json:"user-defined-injections"`
		}
		if err := json.Unmarshal([]byte(text), &config); err != nil {
			c.lose(o, "data."+commonKey, "it cannot be read: %s", excerpt.Error(err))
			return
		}
		injections = config.Injections
		if config.Features["enableHonorExistingResources"] {
			c.lose(o, "data."+commonKey+".features.enableHonorExistingResources", "no equivalent: %s", addsToRequests)
		}
	}
	for _, label := range slices.Sorted(maps.Keys(injections)) {
		c.lose(o, where+label, "not served: %s", describeInjection(label, injections[label]))
	}
	if len(injections) == 0 {
		c.note(o, "", "needs no equivalent: it has no user-defined injections")
	}
}

// addsToRequests says what Culvert does in place of honor-resources.
const addsToRequests = "the devices that a pod's containers request already count for its networks: request as many more as the containers need for themselves"

// describeInjection describes the annotations that pods with a label get, and what to do instead.
func describeInjection(label string, raw json.RawMessage) string {
	var patch injection
	if err := json.Unmarshal(raw, &patch); err != nil || len(patch.Value) == 0 {
		return fmt.Sprintf("Culvert patches no pods that have the label %s", excerpt.Quote(label+"=true"))
	}
	var annotations []string
	for _, key := range slices.Sorted(maps.Keys(patch.Value)) {
		annotations = append(annotations, excerpt.Quote(fmt.Sprintf("%s: %v", key, patch.Value[key])))
	}
	return fmt.Sprintf("pods with the label %s get no annotations by it: write %s into these pods' templates", excerpt.Quote(label+"=true"), strings.Join(annotations, ", "))
}

// addInjector adds the settings of network-resources-injector that Culvert has too.
func (s *settings) addInjector(w Workload) (notes []Note) {
	if keys, ok := flagOf(w.Args, "network-resource-name-keys"); ok {
		for _, key := range splitNames(keys) {
			if !isAnnotationKey.MatchString(key) {
				notes = append(notes, Note{Object: w.String(), Field: "network-resource-name-keys " + excerpt.Quote(key), Text: "no equivalent: it is no key of an annotation", Lost: true})
				continue
			}
			s.resourceKeys = append(s.resourceKeys, key)
		}
	}
	if honors, ok := flagOf(w.Args, "honor-resources"); ok && honors != "false" {
		notes = append(notes, Note{Object: w.String(), Field: "honor-resources", Text: "no equivalent: " + addsToRequests, Lost: true})
	}
	return notes
}
