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

// mostOutput bounds what an error of RunProgram has of the program's output, in bytes.
const mostOutput = 2000

// RunProgram runs a program of the host, such as swapoff or apt-get, which asks no questions.
func RunProgram(ctx context.Context, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		end := strings.TrimSpace(string(out[max(0, len(out)-mostOutput):]))
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, end)
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
