package survey

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func sysctlFile(key string) string { return "proc/sys/" + strings.ReplaceAll(key, ".", "/") }

// LoadModule loads a module until the next boot.
func LoadModule(ctx context.Context, name string) error {
	out, err := exec.CommandContext(ctx, "modprobe", "--", name).CombinedOutput()
	if err != nil {
		return fmt.Errorf("modprobe %s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// SetSysctl sets a value until the next boot, reads it back, and returns the former value.
func SetSysctl(root Root, key, value string) (before string, err error) {
	file := filepath.Join(string(root), sysctlFile(key))
	read := func() string {
		text, readErr := os.ReadFile(file)
		if err == nil && readErr != nil {
			err = fmt.Errorf("read %s: %w", key, readErr)
		}
		return strings.TrimSpace(string(text))
	}
	if before = read(); err != nil {
		return "", err
	}
	if err := os.WriteFile(file, []byte(value+"\n"), 0); err != nil {
		return before, fmt.Errorf("set %s to %s: %w", key, value, err)
	}
	if after := read(); err == nil && after != value {
		err = fmt.Errorf("set %s to %s: it reads back as %s", key, value, after)
	}
	return before, err
}
