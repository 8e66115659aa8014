package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// The formats of a command's output. Table is text for people.
const (
	Table = ""
	Wide  = "wide"
	JSON  = "json"
	YAML  = "yaml"
	JSONL = "jsonl" // one value a line
)

// Encode writes v as JSON or YAML, with the field names and order that api
// gives it in both.
func Encode(w io.Writer, format string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if format == JSON {
		_, err = w.Write(append(raw, '\n'))
		return err
	}
	var node yaml.Node
	if err := yaml.Unmarshal(raw, &node); err != nil { // JSON is YAML; a Node keeps the order
		return fmt.Errorf("encode: %w", err)
	}
	if err := useBlockStyle(&node); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&node); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// useBlockStyle gives nodes YAML's own style instead of JSON's. An empty list or map
// stays in JSON's form, since YAML has no other. Text that any reader, of YAML 1.1
// too, would take for something else (8086, no, 12:30:00:00:00:01) keeps its quotes.
func useBlockStyle(n *yaml.Node) error {
	for _, c := range n.Content {
		if err := useBlockStyle(c); err != nil {
			return err
		}
	}
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str":
		return n.Encode(n.Value)
	case len(n.Content) > 0:
		n.Style = 0
	}
	return nil
}

// EncodeLine writes v on one line of JSON (JSON and JSONL), or as one document of YAML, for
// values that come one by one.
func EncodeLine(w io.Writer, format string, v any) error {
	if format == JSON || format == JSONL {
		if err := json.NewEncoder(w).Encode(v); err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		return nil
	}
	if _, err := io.WriteString(w, "---\n"); err != nil {
		return err
	}
	return Encode(w, format, v)
}
