package place

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// guestMachine is a virtual machine on another machine, where a command gives a shell in it: over
// its network or without one, such as by a virtio channel.
type guestMachine struct {
	on starter
	by string
}

// startScript makes the shell run the script. A shell may read more of its input than the line
// that it runs (dash and busybox's do), so startScript sends no input of the script before the
// script has reported that it reads. The script also reports its end, since a virtio channel
// stays open when its user in the guest ends.
func (m guestMachine) startScript(ctx context.Context, script string) (*Pipe, error) {
	pipe, err := m.on.startScript(ctx, m.by)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = pipe.Close() })
	defer stop()
	out := &guestOutput{lines: bufio.NewReader(pipe.Reader)}
	line := "exec sh -c " + quoteShell("echo "+reads+"\nsh -c "+quoteShell(script)+"\necho "+over) + "\n"
	if err := out.awaitText(pipe, line); err != nil {
		_ = pipe.Close() // now it has said all
		return nil, errors.Join(context.Cause(ctx), fmt.Errorf("%s gives no shell: %w: %s", m.by, err, pipe.Said()))
	}
	pipe.Reader = out
	return pipe, nil
}

func (m guestMachine) putProgram(ctx context.Context, p Program, run func(string) string) (*Pipe, error) {
	return send(ctx, m, p, run)
}

// A script prints reads when it begins to read its input, and over is printed at its end. mostSaid
// bounds the text before reads, such as a greeting.
const (
	reads    = "culvert:reads"
	over     = "culvert:over"
	mostSaid = 64 << 10
)

// guestOutput is the output of a script in a guest, up to its end.
type guestOutput struct {
	lines *bufio.Reader
	rest  []byte // of a line
}

// awaitText writes a line to a shell, and reads its output up to the script's word and no further.
func (o *guestOutput) awaitText(shell io.Writer, line string) error {
	if _, err := fmt.Fprint(shell, line); err != nil {
		return err
	}
	for said := 0; said < mostSaid; {
		part, err := o.lines.ReadSlice('\n') // a part of a line that is too long, which is none of the script's
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if bytes.HasSuffix(bytes.TrimRight(part, "\r\n"), []byte(reads)) {
			return nil
		}
		said += len(part)
	}
	return errors.New("what answers is no shell")
}

// Read returns the output until the script ends.
func (o *guestOutput) Read(p []byte) (int, error) {
	if len(o.rest) == 0 {
		line, err := o.lines.ReadBytes('\n')
		if len(line) == 0 {
			return 0, err
		}
		if string(bytes.TrimRight(line, "\r\n")) == over {
			return 0, io.EOF
		}
		o.rest = line
	}
	n := copy(p, o.rest)
	o.rest = o.rest[n:]
	return n, nil
}
