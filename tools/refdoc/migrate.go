package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/admin/migrate"
)

const migrateIntro = `# Fields of the SR-IOV operator and the device plugin

` + "`culvert migrate convert`" + ` does with each field as these tables say. They have every field of the
newest versions of both projects, and some of older ones. The fields of the operator's objects are
below spec, those of the device plugin's ConfigMap below resourceList.

The column becomes names the field of the NodePolicy or of the network's ` + "`spec.config`" + `. Other words
in it:

- nothing: the field needs no equivalent.
- set: set this value of Culvert's chart yourself. The command says so.
- lost: the field has no equivalent. The command names it, and converts the rest of the object.
- refused: the command does not convert the object, or the entry of resourceList, and names the
  field. Without the field the object would mean something else.

The command refuses a SriovNetworkNodePolicy or SriovNetwork that has a field which no table has, or
a value of another type than the example, and names the nearest field. It refuses JSON in a field
that has a key twice.

<!-- Written by tools/refdoc from internal/admin/migrate/fields.go: change it there. -->
`

// migrateReference returns the table of fields, by kind and device type.
func migrateReference() []byte {
	var out bytes.Buffer
	out.WriteString(migrateIntro)
	title := ""
	for _, f := range migrate.Fields() {
		of := f.Kind
		if f.DeviceType != "" {
			of += ", deviceType " + f.DeviceType
		}
		if of != title {
			title = of
			fmt.Fprintf(&out, "\n## %s\n\n| field | example | becomes | remark |\n|---|---|---|---|\n", title)
		}
		fmt.Fprintf(&out, "| %s | `%s` | %s | %s |\n", f.Path, describeExample(f.Example), describeOutcome(f), escapeCell(f.Why))
	}
	return out.Bytes()
}

// describeExample returns an example as JSON.
func describeExample(value any) string {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(value) // the table's values always can
	return escapeCell(strings.TrimSpace(text.String()))
}

func describeOutcome(f migrate.Field) string {
	switch f.Outcome {
	case migrate.Becomes:
		return f.To
	case migrate.Setting:
		return "set " + f.To
	}
	return string(f.Outcome)
}
