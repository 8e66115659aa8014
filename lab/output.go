package lab

import (
	"io"
	"sync"
)

// A lockedWriter passes one write at a time to its writer.
type lockedWriter struct {
	mu sync.Mutex // guards to
	to io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// lockShared returns the writers of a command's two outputs. A goroutine copies each output, so a
// writer that gets both is locked. TestOneWriterGetsBothOutputs proves it.
func lockShared(stdout, stderr io.Writer) (out, errs io.Writer) {
	if stdout == nil || !areSame(stdout, stderr) {
		return stdout, stderr
	}
	w := &lockedWriter{to: stdout}
	return w, w
}

// areSame compares two writers. Writers of a type that Go cannot compare are not the same.
func areSame(a, b io.Writer) bool {
	defer func() { _ = recover() }() // == panics for such a type
	return a == b
}
