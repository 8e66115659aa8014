package verdict

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// repeat is a key that an object has twice.
type repeat struct {
	path        string // of the key, with those above it
	line, first int    // where the key stands, and where it stood before
	lost, last  string // the values, where they are texts
}

// dropRepeated returns a copy of a document without the earlier values of keys that it has twice,
// and these keys.
func dropRepeated(doc *yaml.Node) (*yaml.Node, []repeat) {
	c := copier{done: map[*yaml.Node]*yaml.Node{}}
	return c.copyNode(doc, ""), c.repeated
}

// copier copies a document. done has the copies of the nodes, since an alias leads to a node that
// is elsewhere too.
type copier struct {
	done     map[*yaml.Node]*yaml.Node
	repeated []repeat
}

func (c *copier) copyNode(n *yaml.Node, path string) *yaml.Node {
	if n == nil {
		return nil
	}
	if known := c.done[n]; known != nil {
		return known
	}
	out := *n
	c.done[n], out.Content = &out, nil
	switch n.Kind {
	case yaml.MappingNode:
		c.copyMapping(n, &out, path)
	case yaml.SequenceNode:
		for i, below := range n.Content {
			out.Content = append(out.Content, c.copyNode(below, elementPath(path, i)))
		}
	default:
		for _, below := range n.Content {
			out.Content = append(out.Content, c.copyNode(below, path))
		}
	}
	out.Alias = c.copyNode(n.Alias, path)
	return &out
}

func (c *copier) copyMapping(n, out *yaml.Node, path string) {
	at := map[string]int{} // where the value of a key is in out.Content
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		below := keyPath(path, key.Value)
		known, twice := at[key.Value]
		if twice && key.Kind == yaml.ScalarNode {
			c.repeated = append(c.repeated, repeat{
				path: below, line: key.Line, first: out.Content[known-1].Line, lost: out.Content[known].Value, last: value.Value,
			})
			out.Content[known-1], out.Content[known] = c.copyNode(key, below), c.copyNode(value, below)
			continue
		}
		out.Content = append(out.Content, c.copyNode(key, below), c.copyNode(value, below))
		if key.Kind == yaml.ScalarNode {
			at[key.Value] = len(out.Content) - 1
		}
	}
}

// longestPath bounds the paths of keys, which messages name.
const longestPath = 300

// keyPath is the path of a key below a path.
func keyPath(path, key string) string {
	if len(path)+len(key) > longestPath {
		return path
	}
	return strings.TrimPrefix(path+"."+key, ".")
}

// elementPath is the path of an element below a path.
func elementPath(path string, i int) string {
	if len(path) > longestPath {
		return path
	}
	return fmt.Sprintf("%s[%d]", path, i)
}
