package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// anyGo is the wanted version that every Go version meets.
const anyGo = "any"

// pinnedGo returns the Go version that tools/versions, or another file, pins for images.
func pinnedGo(file string) (string, error) {
	body, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(body)) {
		if version, found := strings.CutPrefix(strings.TrimSpace(line), "IMAGE_GO="); found {
			return version, nil
		}
	}
	return "", fmt.Errorf("%s has no line IMAGE_GO=VERSION", file)
}

// checkGo returns an error unless got, which built what, is the wanted Go version.
func checkGo(what, got, wanted string) error {
	if wanted == anyGo || got == wanted {
		return nil
	}
	return fmt.Errorf("%s built %s, but images are built by %s (tools/versions): run this again with GOTOOLCHAIN=%[3]s, "+
		"which fetches that version, or with -go any to make an image of other bytes", got, what, wanted)
}

// checkPrograms returns the Go version that the programs in bin record, or an error when
// it is not the wanted one. The record includes experiments (GOEXPERIMENT).
func checkPrograms(bin, wanted string) (version string, err error) {
	entries, err := os.ReadDir(bin)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		info, err := buildinfo.ReadFile(filepath.Join(bin, e.Name()))
		if err != nil {
			return "", err
		}
		version = info.GoVersion
		if err := checkGo(e.Name(), version, wanted); err != nil {
			return "", err
		}
	}
	if version == "" {
		return "", errors.New("there are no programs in " + bin)
	}
	return version, nil
}
