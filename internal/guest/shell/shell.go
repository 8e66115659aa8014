// Package shell runs a script in a shell of a guest, which is reached by the input and output of some
// command: ssh, or a connection to a virtio channel. bench puts its agent into guests by it, and the
// doctor asks guests what they see. The caller starts the command and ends it.
package shell

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Start makes the shell run a script, and returns the script's output, which ends with the script. A
// shell may read more of its input than the line that it runs (dash and busybox's do), so the caller
// sends no input of the script before Start returns. The script also reports its end, since a virtio
// channel stays open when its user in the guest ends.
func Start(shell io.ReadWriter, script string) (io.Reader, error) {
	out := &output{lines: bufio.NewReader(shell)}
	line := "exec sh -c " + Quote("echo "+reads+"\nsh -c "+Quote(script)+"\necho "+over) + "\n"
	if err := out.awaitText(shell, line); err != nil {
		return nil, err
	}
	return out, nil
}

// Quote makes one word of s for a shell.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// A script prints reads when it begins to read its input, and over is printed at its end. mostSaid
// bounds the text before reads, such as a greeting.
const (
	reads    = "culvert:reads"
	over     = "culvert:over"
	mostSaid = 64 << 10
)

// output is the output of a script in a guest, up to its end.
type output struct {
	lines *bufio.Reader
	rest  []byte // of a line
}

// awaitText writes a line to a shell, and reads its output up to the script's word and no further.
func (o *output) awaitText(shell io.Writer, line string) error {
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
func (o *output) Read(p []byte) (int, error) {
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
