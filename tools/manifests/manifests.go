// Package manifests names an image in the manifests of dist/kubernetes. The image tool and the
// release tool both write manifests that name the image beside them.
package manifests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/culvert-net/culvert/internal/durable"
)

// files has the manifests that name the image.
var files = []string{"culvert.yaml", "release-services.yaml"}

// image matches the name of the image in a manifest and in the files of the chart. Their comments
// say localhost/culvert:VERSION.
var image = regexp.MustCompile(`localhost/culvert:v[0-9][-0-9A-Za-z.]*`)

// Write copies the manifests of the folder from into the folder to, with the name of an image.
func Write(from, to, name string) error {
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(from, file))
		if err != nil {
			return err
		}
		if text, err = NameImage(text, name); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := durable.WriteFile(filepath.Join(to, file), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// NameImage puts the name of an image into a manifest, or into a file of the chart that names it.
func NameImage(text []byte, name string) ([]byte, error) {
	if !image.Match(text) {
		return nil, errors.New("no text names an image localhost/culvert:VERSION")
	}
	return image.ReplaceAllLiteral(text, []byte(name)), nil
}
