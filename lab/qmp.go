package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// A monitor talks to one QEMU by its machine protocol (QMP,
// docs/interop/qmp-spec.rst of QEMU).
type monitor struct {
	mu      sync.Mutex // held over a command and its answer
	conn    io.ReadWriteCloser
	answers chan qmpMessage
	events  func(name, reason string)
}

type qmpMessage struct {
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Desc string `json:"desc"`
	} `json:"error"`
	Event string `json:"event"`
	Data  struct {
		Reason string `json:"reason"`
	} `json:"data"`
}

// qmpTime bounds the wait for an answer. Under load QEMU can take nearly as long.
const qmpTime = 30 * time.Second

// newMonitor opens the session. The goroutine that runs readMessages calls events. readMessages
// returns when the connection ends.
func newMonitor(conn io.ReadWriteCloser, events func(name, reason string)) *monitor {
	return &monitor{conn: conn, answers: make(chan qmpMessage, 1), events: events}
}

// readMessages reads QEMU's messages until the connection ends.
func (m *monitor) readMessages() error {
	defer close(m.answers)
	in := json.NewDecoder(m.conn)
	for {
		var msg qmpMessage
		if err := in.Decode(&msg); err != nil {
			return err
		}
		switch {
		case msg.Event != "":
			m.events(msg.Event, msg.Data.Reason)
		case msg.Return != nil || msg.Error != nil:
			m.answers <- msg
		}
	}
}

// runCommand runs one command.
func (m *monitor) runCommand(command string, arguments any) error {
	return m.queryCommand(command, arguments, nil)
}

// queryCommand runs one command and decodes its answer into the value, unless that is nil.
func (m *monitor) queryCommand(command string, arguments, into any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	body, err := json.Marshal(map[string]any{"execute": command, "arguments": arguments})
	if err != nil {
		return err
	}
	if _, err := m.conn.Write(body); err != nil {
		return fmt.Errorf("tell QEMU %s: %w", command, err)
	}
	timeout := time.NewTimer(qmpTime)
	defer timeout.Stop()
	select {
	case msg, ok := <-m.answers:
		switch {
		case !ok:
			return fmt.Errorf("tell QEMU %s: %w", command, io.ErrUnexpectedEOF)
		case msg.Error != nil:
			return fmt.Errorf("tell QEMU %s: %s", command, msg.Error.Desc)
		case into != nil:
			return json.Unmarshal(msg.Return, into)
		}
		return nil
	case <-timeout.C:
		return errors.Join(fmt.Errorf("tell QEMU %s: no answer in %s", command, qmpTime), m.conn.Close())
	}
}

// negotiateCapabilities must be the first command; QEMU refuses others before it.
func (m *monitor) negotiateCapabilities() error { return m.runCommand("qmp_capabilities", struct{}{}) }

// setLink plugs the cable of a netdev in or pulls it.
func (m *monitor) setLink(id string, up bool) error {
	return m.runCommand("set_link", map[string]any{"name": id, "up": up})
}
