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

// repeated walks the tokens of a text.
type repeated struct {
	dec   *json.Decoder
	found []string
}

// readValue reads a value, and reports whether that was possible.
func (r *repeated) readValue(path string) bool {
	token, err := r.dec.Token()
	if err != nil {
		return false
	}
	switch token {
	case json.Delim('{'):
		return r.readObject(path)
	case json.Delim('['):
		for i := 0; r.dec.More(); i++ {
			if !r.readValue(extend(path, fmt.Sprintf("[%d]", i))) {
				return false
			}
		}
		_, err = r.dec.Token()
	}
	return err == nil
}

// readObject reads the rest of an object.
func (r *repeated) readObject(path string) bool {
	seen := map[string]bool{}
	for r.dec.More() {
		token, err := r.dec.Token()
		key, isText := token.(string)
		if err != nil || !isText {
			return false
		}
		below := extend(path, "."+excerpt.Line(key))
		name := key
		if folded := strings.ToLower(key); folded == "type" || folded == "plugins" {
			name = folded
		}
		if seen[name] && len(r.found) < MaxProblems {
			r.found = append(r.found, strings.TrimPrefix(below, "."))
		}
		seen[name] = true
		if !r.readValue(below) {
			return false
		}
	}
	_, err := r.dec.Token()
	return err == nil
}

// longestPath bounds the path of a key in bytes: a hostile text has objects in objects.
const longestPath = 1000

func extend(path, by string) string {
	if len(path) > longestPath {
		return path
	}
	return path + by
}
