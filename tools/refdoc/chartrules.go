package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// rule is a JSON Schema: it says what a value of the chart may be.
type rule map[string]any

// Patterns of names, in the syntax that JSON Schema and Go share.
const (
	labelPattern    = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
	namePattern     = `[a-z0-9]([-a-z0-9.]*[a-z0-9])?`
	quantityPattern = `^[0-9]+(\.[0-9]+)?([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?$`
	percentPattern  = `^([1-9][0-9]?|100)%$`
)

// chartRules has the rule of each value of the chart. JSON Schema knows no default rule: a value
// without a rule is an error, and so is a rule without a value.
var chartRules = map[string]rule{
	"image.name":       matchText(`^[^\s@]+(@sha256:[0-9a-f]{64})?$`),
	"image.pullPolicy": oneOf("IfNotPresent", "Always", "Never"),
	"imagePullSecrets": listOf(addWord(objectOf(map[string]rule{"name": matchText("^" + namePattern + "$")}), "required", []string{"name"})),

	"node.nodeSelector":           mapOf(rule{"type": "string"}),
	"node.selector":               mapOf(rule{"type": "string"}),
	"node.podNetworks":            oneOf("auto", "always", "never"),
	"node.whereabouts":            oneOf("auto", "plugin", "pools"),
	"node.ipamTypes":              listOf(matchText(`^[^\s,/]+$`)),
	"node.segmentDiscovery":       boolean,
	"node.namespaceIsolation":     oneOf(true, false, "auto"), // a template says what to do about auto, of earlier charts
	"node.globalNamespaces":       listOf(matchText("^" + labelPattern + "$")),
	"node.defaultNetworks":        listOf(matchText("^(" + labelPattern + "/)?" + namePattern + `(@[^\s,/]+)?$`)),
	"node.systemNamespaces":       listOf(matchText("^" + labelPattern + "$")),
	"node.devicePlugin.configMap": matchText("^" + labelPattern + "/" + namePattern + "$"),
	"node.devicePlugin.prefix":    matchText("^" + namePattern + "$"),
	"node.cniBin":                 folder,
	"node.cniConf":                folder,
	"node.kubelet":                folder,
	"node.netns":                  folder,
	"node.tolerations":            tolerations,
	"node.affinity":               affinity,
	"node.priorityClassName":      matchOrEmpty(namePattern),
	"node.maxUnavailable":         {"type": []string{"integer", "string"}, "minimum": 1, "pattern": percentPattern},
	"node.resources":              resources,
	"node.logLevel":               oneOf("info", "debug"),
	"node.metrics.address":        matchOrEmpty(`[^\s]*:[0-9]+`),
	"node.extraArgs":              flags,

	"controller.replicas":                atLeast(0),
	"controller.drainNodes":              addWord(atLeast(0), "maximum", 5000), // as the flag
	"controller.nodeSelector":            mapOf(rule{"type": "string"}),
	"controller.tolerations":             tolerations,
	"controller.affinity":                affinity,
	"controller.priorityClassName":       matchOrEmpty(namePattern),
	"controller.networkResourceNameKeys": notEmpty(listOf(matchText(`^[^\s,]+$`))),
	"controller.services":                boolean,
	"controller.releaseServices":         oneOf("auto", true, false),
	"controller.releaseTimeoutSeconds":   atLeast(15),
	"controller.serviceNetworks":         listOf(matchText("^" + labelPattern + "/" + namePattern + "$")),
	"controller.certificates":            oneOf("own", "cert-manager"),
	"controller.issuer":                  objectOf(map[string]rule{"name": matchText("^" + namePattern + "$"), "kind": {"type": "string"}, "group": {"type": "string"}}),
	"controller.clientCA":                matchOrEmpty(namePattern),
	"controller.resources":               resources,
	"controller.logLevel":                oneOf("info", "debug"),
	"controller.metrics.enabled":         boolean,
	"controller.extraArgs":               flags,

	"monitoring.enabled":             boolean,
	"monitoring.labels":              mapOf(rule{"type": "string"}),
	"networkPolicies.enabled":        boolean,
	"networkPolicies.apiServerPorts": notEmpty(listOf(rule{"type": "integer", "minimum": 1, "maximum": 65535})),
	"networkAttachmentDefinitions":   oneOf("auto", true, false),
	"deviceClasses":                  oneOf("auto", true, false),
	"createNamespace":                boolean,
}

var (
	boolean     = rule{"type": "boolean"}
	folder      = matchText(`^/[-A-Za-z0-9_./]*$`)
	flags       = listOf(matchText(`^--?[a-z]`))
	anyObject   = rule{"type": "object"}
	affinity    = objectOf(map[string]rule{"nodeAffinity": anyObject, "podAffinity": anyObject, "podAntiAffinity": anyObject})
	amounts     = mapOf(rule{"type": []string{"string", "number"}, "minimum": 0, "pattern": quantityPattern})
	resources   = objectOf(map[string]rule{"requests": amounts, "limits": amounts})
	tolerations = listOf(objectOf(map[string]rule{
		"key": {"type": "string"}, "operator": oneOf("Exists", "Equal"), "value": {"type": "string"},
		"effect": oneOf("NoSchedule", "PreferNoSchedule", "NoExecute"), "tolerationSeconds": {"type": "integer"},
	}))
)

func oneOf(values ...any) rule         { return rule{"enum": values} }
func matchText(pattern string) rule    { return rule{"type": "string", "pattern": pattern} }
func matchOrEmpty(pattern string) rule { return matchText("^(" + pattern + ")?$") }
func atLeast(n int) rule               { return rule{"type": "integer", "minimum": n} }
func listOf(item rule) rule            { return rule{"type": "array", "items": item} }
func mapOf(value rule) rule            { return rule{"type": "object", "additionalProperties": value} }
func objectOf(fields map[string]rule) rule {
	return rule{"type": "object", "properties": fields, "additionalProperties": false}
}
func notEmpty(list rule) rule { return addWord(list, "minItems", 1) }

// addWord returns a copy of a rule that has one more word.
func addWord(of rule, word string, value any) rule {
	all := maps.Clone(of)
	all[word] = value
	return all
}

// chartSchema returns the JSON Schema of a chart's values, by which Helm judges them. Its draft is one
// that each Helm 3 knows. No value is required, since an upgrade with --reuse-values has only those of
// the earlier chart. A chart above this one may pass global values on.
func chartSchema(values []chartValue, rules map[string]rule) ([]byte, error) {
	top := objectOf(map[string]rule{"global": anyObject})
	top["$schema"], top["title"] = "http://json-schema.org/draft-07/schema#", "Values of Culvert's chart, made by tools/refdoc"
	left := maps.Clone(rules)
	for _, v := range values {
		of, has := left[v.Name]
		if !has {
			return nil, fmt.Errorf("value %s has no rule: add one to chartRules", v.Name)
		}
		delete(left, v.Name)
		section, last := top, v.Name
		for {
			first, rest, deeper := strings.Cut(last, ".")
			if !deeper {
				break
			}
			section, last = sectionOf(section, first), rest
		}
		fieldsOf(section)[last] = addWord(addWord(of, "description", v.Meaning), "default", v.Default)
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("rules without a value in values.yaml: %s", strings.Join(slices.Sorted(maps.Keys(left)), ", "))
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(top)
	return out.Bytes(), err
}

// sectionOf returns the section of a name in another section, which gets one if it has none.
func sectionOf(of rule, name string) rule {
	fields := fieldsOf(of)
	if fields[name] == nil {
		fields[name] = objectOf(map[string]rule{})
	}
	return fields[name]
}

func fieldsOf(section rule) map[string]rule {
	fields, _ := section["properties"].(map[string]rule)
	return fields
}
