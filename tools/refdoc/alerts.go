package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

const alertsIntro = `# Alerts

Prometheus raises these alerts about Culvert ([how to install them](../alerts.md)). NODE, NAME and N
stand for the values that it fills in. A **critical** alert means that pods or guests do not start,
or have no network. A **warning** can wait for the next working day.

<!-- Written by tools/refdoc from dist/prometheus/culvert-rules.yaml: change it there. -->
`

// alertRule is an alert in a file of rules of Prometheus.
type alertRule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// plainValues replaces the parts of an annotation that Prometheus fills in.
var plainValues = strings.NewReplacer("{{ $labels.instance }}", "NODE", "{{ $labels.pf }}", "NAME", "{{ $labels.pool }}", "NAME",
	"{{ $labels.fault }}", "PCIe or TransmitQueue", "{{ $labels.job }}", "culvertd or culvert-controller", "{{ $labels.name }}", "NAME",
	"{{ $value }}", "N", "{{ $value | humanizeDuration }}", "N seconds", "{{ $value | humanize1024 }}", "N ")

// unfilled matches a part of an annotation that plainValues lacks.
var unfilled = regexp.MustCompile(`\{\{.*?\}\}`)

// alertsReference returns a section for each alert of a file of rules.
func alertsReference(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var rules struct{ Groups []struct{ Rules []alertRule } }
	if err := yaml.Unmarshal(text, &rules); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var out bytes.Buffer
	out.WriteString(alertsIntro)
	for _, g := range rules.Groups {
		for _, a := range g.Rules {
			meaning := upperFirst(plainValues.Replace(a.Annotations["summary"])) + ". " + plainValues.Replace(a.Annotations["description"])
			if left := unfilled.FindString(meaning); left != "" {
				err = errors.Join(err, fmt.Errorf("alert %s: add %s to plainValues", a.Alert, left))
			}
			fmt.Fprintf(&out, "\n## %s\n\n**%s**, after %s\n\n%s\n\n```promql\n%s\n```\n", a.Alert, a.Labels["severity"], a.For, wrapLines(meaning), strings.TrimSpace(a.Expr))
		}
	}
	return out.Bytes(), err
}
