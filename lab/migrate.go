package lab

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// memoryStays makes QEMU leave the memory of a machine out of its state, because the memory is in a
// file of its own. The capability is "x-ignore-shared" of QEMU's qapi/migration.json.
func (m *monitor) memoryStays() error {
	return m.do("migrate-set-capabilities", map[string]any{
		"capabilities": []map[string]any{{"capability": "x-ignore-shared", "state": true}},
	})
}

// save stops the machine and writes the state of its devices to a new file. Afterwards the
// machine's memory and disk no longer change. The file's path must not be relative.
func (m *monitor) save(ctx context.Context, file string) error {
	if err := errors.Join(m.memoryStays(), m.do("stop", struct{}{})); err != nil {
		return err
	}
	if err := m.do("migrate", map[string]any{"uri": "file:" + file}); err != nil {
		return err
	}
	return m.awaitMigration(ctx)
}

// restore reads the state that save wrote into a machine that was started with Restore, and
// lets it run.
func (m *monitor) restore(ctx context.Context, file string) error {
	if err := m.memoryStays(); err != nil {
		return err
	}
	if err := m.do("migrate-incoming", map[string]any{"uri": "file:" + file}); err != nil {
		return err
	}
	if err := m.awaitMigration(ctx); err != nil {
		return err
	}
	return m.do("cont", struct{}{})
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
		if err := m.query("query-migrate", struct{}{}, &now); err != nil {
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
