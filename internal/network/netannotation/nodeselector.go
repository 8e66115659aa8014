package netannotation

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/culvert-net/culvert/internal/vf"
)

// labelPart matches the value of a label, and the part of its key after the slash.
var labelPart = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// isLabelKey reports whether a text may be the key of a label: a name, with a DNS name and a slash
// before it perhaps.
func isLabelKey(key string) bool {
	prefix, name, hasPrefix := strings.Cut(key, "/")
	if !hasPrefix {
		return labelPart.MatchString(key)
	}
	return len(prefix) <= 253 && objectName.MatchString(prefix) && labelPart.MatchString(name)
}

// ParseNodeSelector reads the annotation NodeSelector of a network: key=value, or a key alone whose
// value is empty. The key is empty without the annotation. The error wraps vf.ErrInvalid.
func ParseNodeSelector(annotations map[string]string) (key, value string, err error) {
	text, is := annotations[NodeSelector]
	if !is {
		return "", "", nil
	}
	key, value, _ = strings.Cut(text, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	if !isLabelKey(key) || value != "" && !labelPart.MatchString(value) {
		return "", "", fmt.Errorf("annotation %s: %w: %.80q is no label of a node: want one key=value; pods may come to nodes without this network", NodeSelector, vf.ErrInvalid, text)
	}
	return key, value, nil
}
