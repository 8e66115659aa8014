package text

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// Formats of a command's output.
const (
	Table = ""
	Wide  = "wide"
	JSON  = "json"
	YAML  = "yaml"
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
	block(&node)
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&node); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// block gives nodes YAML's own style instead of JSON's. An empty list or map
// has no other form, and text that would read as a number keeps its quotes.
func block(n *yaml.Node) {
	for _, c := range n.Content {
		block(c)
	}
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str":
		n.Style = 0
		n.SetString(n.Value)
	case len(n.Content) > 0:
		n.Style = 0
	}
}

// EncodeLine writes v on one line of JSON, or as one document of YAML, for
// values that come one by one.
func EncodeLine(w io.Writer, format string, v any) error {
	if format == JSON {
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
