package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"html"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const apiIntro = `# The objects of the API group culvert.dev

Culvert has three kinds of objects, all of version ` + "`v1alpha1`" + ` and without a namespace. You write
NodePolicies and AddressPools. culvertd writes the NodeState of its node. Networks are
NetworkAttachmentDefinitions, which have [a page of their own](cni.md). ` + "`kubectl explain`" + ` shows the
same texts: ` + "`kubectl explain nodepolicy.spec.pools`" + `.

A field with the word required must be there if the object or list item above it is.

<!-- Written by tools/refdoc from the types of api/v1alpha1, by their CRDs: change them there. -->
`

// crd is the part of a CustomResourceDefinition that the reference shows.
type crd struct {
	Spec struct {
		Names struct {
			Kind, Plural string
			ShortNames   []string
		}
		Versions []struct {
			Schema struct {
				OpenAPIV3Schema schema
			}
			AdditionalPrinterColumns []struct {
				Name, JSONPath string
				Priority       int
			}
		}
	}
}

// schema is an OpenAPI schema as controller-gen writes it.
type schema struct {
	Type, Description, Pattern string
	Properties                 map[string]schema
	Items                      *schema
	AdditionalProperties       *schema
	Required                   []string
	Enum                       []any
	Default                    any
	Minimum, Maximum           *int64
	MinItems, MaxItems         *int64
	MinLength, MaxLength       *int64
	MinProperties              *int64
	IntOrString                bool `json:"x-kubernetes-int-or-string"`
	Validations                []struct {
		Message string
	} `json:"x-kubernetes-validations"`
}

// apiReference returns the reference of the CRDs in a folder. conditions are the descriptions of
// the conditions of each kind, and reasons has the reasons of conditions.
func apiReference(crds string, conditions map[string][]condition, reasons []constantBlock) ([]byte, error) {
	names, err := filepath.Glob(filepath.Join(crds, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString(apiIntro)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var c crd
		if err := yaml.Unmarshal(text, &c); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := writeKind(&out, c, conditions[c.Spec.Names.Kind], reasons); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return out.Bytes(), nil
}

// writeKind writes the section of one kind.
func writeKind(out *bytes.Buffer, c crd, conditions []condition, reasons []constantBlock) error {
	if len(c.Spec.Versions) != 1 || len(conditions) == 0 {
		return fmt.Errorf("%d versions and %d conditions", len(c.Spec.Versions), len(conditions))
	}
	kind, version := c.Spec.Names.Kind, c.Spec.Versions[0]
	top := version.Schema.OpenAPIV3Schema
	fmt.Fprintf(out, "\n## %s\n\n%s\n\n", kind, wrapLines(joinLines(top.Description)))
	fmt.Fprintf(out, "%s\n\n", wrapLines(fmt.Sprintf("kubectl names it `%s`, or `%s` for short.", c.Spec.Names.Plural, strings.Join(c.Spec.Names.ShortNames, "`, `"))))
	fmt.Fprintf(out, "| column of `kubectl get %s` | shows |\n|---|---|\n", c.Spec.Names.Plural)
	for _, column := range version.AdditionalPrinterColumns {
		wide := ""
		if column.Priority > 0 {
			wide = ", with `-o wide`"
		}
		fmt.Fprintf(out, "| %s | `%s`%s |\n", strings.ToUpper(column.Name), column.JSONPath, wide)
	}
	for _, part := range []string{"spec", "status"} {
		s, has := top.Properties[part]
		if !has {
			continue
		}
		fmt.Fprintf(out, "\n### %s: %s\n\n%s\n\n| field | value | meaning |\n|---|---|---|\n", kind, part, wrapLines(joinLines(s.Description)))
		if err := writeFields(out, s, part); err != nil {
			return err
		}
		writeRules(out, s)
	}
	return writeConditions(out, kind, conditions, reasons)
}

// writeConditions writes the table of a kind's conditions, each with its reasons.
func writeConditions(out *bytes.Buffer, kind string, conditions []condition, reasons []constantBlock) error {
	fmt.Fprintf(out, "\n### %s: conditions\n\n[events.md](events.md) has the meaning of the reasons.\n\n| condition | reasons | meaning |\n|---|---|---|\n", kind)
	for _, one := range conditions {
		found := findReasons(kind, one.name, reasons)
		if len(found) == 0 {
			return fmt.Errorf("condition %s has no reason: name %s %[1]s in the comment of one", one.name, kind)
		}
		fmt.Fprintf(out, "| `%s` | `%s` | %s |\n", one.name, strings.Join(found, "`, `"), one.meaning)
	}
	return nil
}

// findReasons returns the reasons whose comments name a condition: "KIND CONDITION" or "condition
// CONDITION".
func findReasons(kind, name string, reasons []constantBlock) (found []string) {
	names := regexp.MustCompile(`\b(` + kind + `|condition) ` + name + `\b`)
	for _, b := range reasons {
		for _, c := range b.constants {
			if names.MatchString(c.comment) {
				found = append(found, c.value)
			}
		}
	}
	return found
}

// writeFields writes a row for each field below an object, down to the last.
func writeFields(out *bytes.Buffer, s schema, path string) error {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if name == "conditions" {
			fmt.Fprintf(out, "| `%s.conditions` | list of conditions | see below |\n", path)
			continue
		}
		field, at := s.Properties[name], path+"."+name
		if field.Description == "" {
			return fmt.Errorf("field %s has no comment", at)
		}
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", at, describeValue(field, slices.Contains(s.Required, name)), describeField(field))
		inner := field
		if field.Items != nil {
			inner, at = *field.Items, at+"[]"
		}
		if err := writeFields(out, inner, at); err != nil {
			return err
		}
	}
	return nil
}

// trivial matches the description of a type that only names it.
var trivial = regexp.MustCompile(`^\w+ (is|has|are) [^.]*\.$`)

// describeField returns a field's comment, with that of the type of its items.
func describeField(s schema) string {
	text := joinLines(s.Description)
	if s.Items != nil && s.Items.Description != "" && !trivial.MatchString(joinLines(s.Items.Description)) {
		text += " " + joinLines(s.Items.Description)
	}
	return text
}

// describeValue returns the type, the default and the allowed values of a field.
func describeValue(s schema, required bool) string {
	words := []string{describeSchema(s)}
	if required {
		words = append(words, "required")
	}
	if s.Default != nil {
		words = append(words, fmt.Sprintf("default `%v`", s.Default))
	}
	of := s
	if s.Items != nil {
		of = *s.Items
		words = append(words, describeBounds("items", s.MinItems, s.MaxItems))
	}
	if len(of.Enum) > 0 {
		var all []string
		for _, value := range of.Enum {
			all = append(all, fmt.Sprintf("`%v`", value))
		}
		words = append(words, "one of "+strings.Join(all, ", "))
	}
	if of.Pattern != "" {
		words = append(words, "matches "+showPattern(of.Pattern))
	}
	words = append(words, describeBounds("", of.Minimum, of.Maximum), describeBounds("characters", of.MinLength, of.MaxLength), describeBounds("keys", s.MinProperties, nil))
	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), "; ")
}

// showPattern returns a regular expression for a cell of a table. Its brackets must not look like a
// link.
func showPattern(pattern string) string {
	return "<code>" + strings.ReplaceAll(strings.ReplaceAll(html.EscapeString(pattern), "|", "&#124;"), "]", "&#93;") + "</code>"
}

// describeBounds returns the least and the greatest number of something.
func describeBounds(of string, least, most *int64) string {
	var text string
	switch {
	case least != nil && most != nil:
		text = fmt.Sprintf("%d to %d", *least, *most)
	case least != nil:
		text = fmt.Sprintf("at least %d", *least)
	case most != nil:
		text = fmt.Sprintf("at most %d", *most)
	default:
		return ""
	}
	return strings.TrimSpace(text + " " + of)
}

// describeSchema names a type.
func describeSchema(s schema) string {
	switch {
	case s.IntOrString:
		return "integer or string"
	case s.Items != nil:
		return "list of " + describeSchema(*s.Items)
	case s.AdditionalProperties != nil:
		return "map of " + describeSchema(*s.AdditionalProperties)
	}
	return cmp.Or(s.Type, "any")
}

// writeRules lists the rules over several fields of an object, and of the objects in its lists.
func writeRules(out *bytes.Buffer, s schema) {
	all := listRules(s)
	if len(all) == 0 {
		return
	}
	out.WriteString("\nThe API server refuses an object that breaks one of these rules. Its answer has their text:\n\n")
	for _, rule := range all {
		fmt.Fprintln(out, wrapLines("- "+joinLines(rule)))
	}
}

func listRules(s schema) (all []string) {
	for _, v := range s.Validations {
		all = append(all, v.Message)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		all = append(all, listRules(s.Properties[name])...)
	}
	if s.Items != nil {
		all = append(all, listRules(*s.Items)...)
	}
	return all
}

// condition is a condition of a kind, with its meaning.
type condition struct{ name, meaning string }

// also matches the comment of a condition that another kind has too.
var also = regexp.MustCompile(`\b(\w+)s that a person declared have it too`)

// readConditions returns the conditions that a package declares, by kind: those of a block of
// constants whose comment is "Conditions of a KIND.", or "an".
func readConditions(dir string) (map[string][]condition, error) {
	blocks, err := readConstants(dir)
	if err != nil {
		return nil, err
	}
	all := map[string][]condition{}
	for _, b := range blocks {
		_, kind, found := strings.Cut(strings.TrimSuffix(b.title, "."), "Conditions of ")
		if !found {
			continue
		}
		kind = kind[strings.LastIndex(kind, " ")+1:]
		for _, c := range b.constants {
			_, meaning, _ := strings.Cut(c.comment, ": ")
			one := condition{c.value, upperFirst(meaning)}
			all[kind] = append(all[kind], one)
			if m := also.FindStringSubmatch(c.comment); m != nil {
				all[m[1]] = append(all[m[1]], one)
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no block of constants is called Conditions of a KIND")
	}
	return all, nil
}
