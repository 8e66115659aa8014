package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"reflect"
	"strings"
)

const resultIntro = `# The result of a measurement

` + "`culvert bench run`" + ` writes a result, and ` + "`culvert bench report`" + ` and ` + "`culvert bench compare`" + ` read it.
It is one JSON object, of the first type below. A key that is marked optional is absent when it is
empty or 0. A reader that knows the schema refuses a key that is not on this page. Times are RFC
3339.

<!-- Written by tools/refdoc from the types in bench/result.go: change it there. -->
`

// resultReference lists the types of a result in the order in which they are
// first needed, each with its keys.
func resultReference(dir string) ([]byte, error) {
	pkg, err := loadPackage(dir)
	if err != nil {
		return nil, err
	}
	types := map[string]*doc.Type{}
	for _, t := range pkg.Types {
		types[t.Name] = t
	}
	var out bytes.Buffer
	out.WriteString(resultIntro)
	wanted := []string{"Result"}
	for i := 0; i < len(wanted); i++ {
		t := types[wanted[i]]
		if t == nil {
			return nil, fmt.Errorf("package bench has no type %s", wanted[i])
		}
		fmt.Fprintf(&out, "\n## %s\n\n%s\n", t.Name, wrapLines(joinLines(t.Doc)))
		if err := typeTable(&out, t, types, func(name string) {
			if _, ours := types[name]; ours && !strings.Contains("\n"+strings.Join(wanted, "\n")+"\n", "\n"+name+"\n") {
				wanted = append(wanted, name)
			}
		}); err != nil {
			return nil, fmt.Errorf("type %s: %w", t.Name, err)
		}
	}
	return out.Bytes(), nil
}

// typeTable writes the keys of a struct type, or the values of a string type. It calls
// need for the other types that these need.
func typeTable(out *bytes.Buffer, t *doc.Type, types map[string]*doc.Type, need func(string)) error {
	spec, ok := t.Decl.Specs[0].(*ast.TypeSpec)
	if !ok {
		return errors.New("is no type")
	}
	fields, ok := spec.Type.(*ast.StructType)
	if !ok {
		for _, c := range t.Consts {
			for _, s := range c.Decl.Specs {
				if v, ok := s.(*ast.ValueSpec); ok {
					fmt.Fprintf(out, "\n- `%s` %s", v.Values[0].(*ast.BasicLit).Value, joinLines(v.Comment.Text())) //nolint:forcetypeassert // or the type has no such constants
				}
			}
		}
		out.WriteString("\n")
		return nil
	}
	out.WriteString("\n| key | value | |\n|---|---|---|\n")
	return writeRows(out, fields, types, need)
}

// writeRows writes the keys of a struct, with those of embedded structs.
func writeRows(out *bytes.Buffer, fields *ast.StructType, types map[string]*doc.Type, need func(string)) error {
	for _, f := range fields.Fields.List {
		if name, ok := f.Type.(*ast.Ident); ok && len(f.Names) == 0 && types[name.Name] != nil {
			if inner, ok := types[name.Name].Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType); ok { //nolint:forcetypeassert // go/doc's types have no other
				if err := writeRows(out, inner, types, need); err != nil {
					return err
				}
				continue
			}
		}
		if f.Tag == nil {
			return fmt.Errorf("%s has no JSON key", f.Names)
		}
		key, options, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		optional := ""
		if strings.HasPrefix(options, "omit") {
			optional = "optional. "
		}
		text := strings.TrimSpace(joinLines(f.Doc.Text()) + " " + joinLines(f.Comment.Text()))
		if rest, begins := strings.CutPrefix(text, fieldName(f)+" "); begins {
			text = "`" + key + "` " + rest
		}
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", key, describeType(f.Type, need), strings.TrimSpace(optional+text))
	}
	return nil
}

// joinLines puts a comment on one line of a Markdown table.
func joinLines(s string) string {
	return strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(strings.Join(strings.Fields(s), " "))
}

// describeType names a field's type in terms of JSON.
func describeType(e ast.Expr, need func(string)) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return describeType(t.X, need)
	case *ast.ArrayType:
		return "list of " + describeType(t.Elt, need)
	case *ast.MapType:
		return "object: name to " + describeType(t.Value, need)
	case *ast.SelectorExpr:
		return map[string]string{"Time": "time", "Addr": "IP address"}[t.Sel.Name]
	case *ast.Ident:
		if word := map[string]string{"string": "text", "float64": "number", "int": "whole number", "uint64": "whole number", "bool": "true, false"}[t.Name]; word != "" {
			return word
		}
		need(t.Name)
		return "[" + t.Name + "](#" + strings.ToLower(t.Name) + ")"
	}
	return ""
}

// fieldName returns the Go name of a field; empty when it is embedded.
func fieldName(f *ast.Field) string {
	if len(f.Names) == 0 {
		return ""
	}
	return f.Names[0].Name
}
