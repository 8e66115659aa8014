package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// FindRepeated returns the paths of the keys that an object of a JSON text has twice, such as
// plugins[1].type, up to MaxProblems. It finds none in a text that is no JSON. type and plugins
// count in any case, as libcni reads them.
func FindRepeated(text []byte) []string {
	if !json.Valid(text) {
		return nil
	}
	r := repeated{dec: json.NewDecoder(bytes.NewReader(text))}
	r.readValue("")
	return r.found
}

// repeated walks the tokens of a valid text, which never fail.
type repeated struct {
	dec   *json.Decoder
	found []string
}

func (r *repeated) readValue(path string) {
	switch token, _ := r.dec.Token(); token {
	case json.Delim('{'):
		r.readObject(path)
	case json.Delim('['):
		for i := 0; r.dec.More(); i++ {
			r.readValue(extend(path, fmt.Sprintf("[%d]", i)))
		}
		_, _ = r.dec.Token()
	}
}

// readObject reads the rest of an object.
func (r *repeated) readObject(path string) {
	seen := map[string]bool{}
	for r.dec.More() {
		token, _ := r.dec.Token()
		key, _ := token.(string)
		below := extend(path, "."+excerpt.Line(key))
		name := key
		if folded := strings.ToLower(key); folded == "type" || folded == "plugins" {
			name = folded
		}
		if seen[name] && len(r.found) < MaxProblems {
			r.found = append(r.found, strings.TrimPrefix(below, "."))
		}
		seen[name] = true
		r.readValue(below)
	}
	_, _ = r.dec.Token()
}

// longestPath bounds the path of a key in bytes: a hostile text has objects in objects.
const longestPath = 1000

func extend(path, by string) string {
	if len(path) > longestPath {
		return path
	}
	return path + by
}
