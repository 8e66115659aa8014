package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

// A request is a client's request to a supervisor: one line of JSON on the supervisor's socket,
// answered by one line. After the answer to "ssh" the connection carries SSH.
type request struct {
	Op      string   `json:"op"` // status link reboot kill start ssh run end relay route save down
	Node    string   `json:"node,omitempty"`
	PF      string   `json:"pf,omitempty"`
	Up      bool     `json:"up,omitempty"`
	Program *Program `json:"program,omitempty"`
	Target  string   `json:"target,omitempty"` // of "relay" an address and port, of "route" a prefix, of "save" a folder
}

type response struct {
	Error  string  `json:"error,omitempty"`
	Status *Status `json:"status,omitempty"`
}

// lineLimit bounds a request or an answer.
const lineLimit = 1 << 16

// writeLine sends v as one line.
func writeLine(w io.Writer, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(body, '\n'))
	return err
}

// readLine reads one line into v, and not a byte more: SSH may follow.
func readLine(r io.Reader, v any) error {
	line := make([]byte, 0, 512)
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(r, one); err != nil {
			return err
		}
		if one[0] == '\n' {
			return json.Unmarshal(line, v)
		}
		if line = append(line, one[0]); len(line) > lineLimit {
			return errors.New("the line is too long")
		}
	}
}

// sendRequest sends a request on a new connection, which it returns with the answer. If ctx ends
// first, the supervisor may still carry the request out.
func (p paths) sendRequest(ctx context.Context, r request) (net.Conn, response, error) {
	return p.askWith(ctx, r, nil)
}

// askWith sends a request like sendRequest, with a file for the supervisor.
func (p paths) askWith(ctx context.Context, r request, f *os.File) (net.Conn, response, error) {
	var answer response
	conn, err := new(net.Dialer).DialContext(ctx, "unix", p.socketPath())
	if err != nil {
		return nil, answer, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	err = writeLine(conn, r)
	if err == nil && f != nil {
		err = sendFile(conn, f)
	}
	if err == nil {
		err = readLine(conn, &answer)
	}
	if !stop() {
		err = context.Cause(ctx)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("ask the lab's supervisor for %s: %w", r.Op, err)
	case answer.Error != "":
		err = errors.New(answer.Error)
	}
	if err != nil {
		return nil, answer, errors.Join(err, closeConn(conn))
	}
	return conn, answer, nil
}

// closeConn closes conn; it is no error if conn is closed already.
func closeConn(conn io.Closer) error {
	if err := conn.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
