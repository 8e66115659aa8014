package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/migrate"
)

const migrateIntro = `# Fields of the SR-IOV operator and the device plugin

What ` + "`culvert migrate convert`" + ` makes of each field, below spec for the operator's objects and below resourceList for the
ConfigMap of the device plugin. A field that has no equivalent and a value is named when it is converted.

<!-- Written by tools/refdoc from migrate/fields.go: change it there. -->
`

// migrateReference is the table of fields, by kind.
func migrateReference() []byte {
	var out bytes.Buffer
	out.WriteString(migrateIntro)
	kind := ""
	for _, f := range migrate.Fields() {
		if f.Kind != kind {
			kind = f.Kind
			fmt.Fprintf(&out, "\n## %s\n\n| field | becomes | remark |\n|---|---|---|\n", kind)
		}
		to := f.To
		if to == "" {
			to = "no equivalent"
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", f.Path, to, strings.ReplaceAll(f.Why, "|", "\\|"))
	}
	return out.Bytes()
}
