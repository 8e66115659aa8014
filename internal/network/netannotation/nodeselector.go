package netannotation

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/culvert-net/culvert/internal/vf"
)

// ParseNodeSelector reads the annotation NodeSelector of a network: key=value, or a key alone whose
// value is empty. The key is empty without the annotation. The error wraps vf.ErrInvalid.
func ParseNodeSelector(annotations map[string]string) (key, value string, err error) {
	text, is := annotations[NodeSelector]
	if !is {
		return "", "", nil
	}
	key, value, _ = strings.Cut(text, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
		return "", "", fmt.Errorf("annotation %s: %w: %.80q is no label of a node: want one key=value; pods may come to nodes without this network", NodeSelector, vf.ErrInvalid, text)
	}
	return key, value, nil
}
