package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// memoryStays makes QEMU leave a machine's memory out of the saved state, because the memory is
// in a file of its own. The capability is "x-ignore-shared" of QEMU's qapi/migration.json.
func (m *monitor) memoryStays() error {
	return m.runCommand("migrate-set-capabilities", map[string]any{
		"capabilities": []map[string]any{{"capability": "x-ignore-shared", "state": true}},
	})
}

// saveMachine stops the machine and writes the state of its devices to a new file. Afterwards the
// machine's memory and disk no longer change. The file's path must not be relative.
func (m *monitor) saveMachine(ctx context.Context, file string) error {
	if err := errors.Join(m.memoryStays(), m.runCommand("stop", struct{}{})); err != nil {
		return err
	}
	if err := m.runCommand("migrate", map[string]any{"uri": "file:" + file}); err != nil {
		return err
	}
	return m.awaitMigration(ctx)
}

// restoreMachine reads the state that save wrote into a machine that was started with Restore, and
// lets it run.
func (m *monitor) restoreMachine(ctx context.Context, file string) error {
	if err := m.memoryStays(); err != nil {
		return err
	}
	if err := m.runCommand("migrate-incoming", map[string]any{"uri": "file:" + file}); err != nil {
		return err
	}
	if err := m.awaitMigration(ctx); err != nil {
		return err
	}
	return m.runCommand("cont", struct{}{})
}

// awaitMigration waits until QEMU has written or read a state.
func (m *monitor) awaitMigration(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var now struct {
			Status string `json:"status"`
			Error  string `json:"error-desc"`
		}
		if err := m.queryCommand("query-migrate", struct{}{}, &now); err != nil {
			return err
		}
		switch now.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("move the state of the machine: %s %s", now.Status, now.Error)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
