package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/admin/migrate"
)

const migrateIntro = `# Fields of the SR-IOV operator and the device plugin

` + "`culvert migrate convert`" + ` converts each field as these tables say. The fields of the operator's
objects are below spec, those of the device plugin's ConfigMap below resourceList. The command names
each field with a value that has no equivalent.

<!-- Written by tools/refdoc from internal/admin/migrate/fields.go: change it there. -->
`

// migrateReference returns the table of fields, by kind.
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
