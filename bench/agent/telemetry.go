package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/excerpt"
)

// telemetry is a connection to the telemetry socket of a DPDK program, which answers each command
// with one JSON object (DPDK Programmer's Guide, "DPDK Telemetry User Guide").
type telemetry struct {
	conn    *net.UnixConn
	version string // "24.11.8"
	buffer  []byte
}

// A program answers within telemetryTime, and with at most mostTelemetry bytes.
const (
	telemetryTime = 10 * time.Second
	mostTelemetry = 64 << 10
)

// telemetryGreeting is what a program says first.
type telemetryGreeting struct {
	Version string `json:"version"`
}

func openTelemetry(path string) (*telemetry, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("open the telemetry of testpmd: %w", err)
	}
	t := &telemetry{conn: conn, buffer: make([]byte, mostTelemetry)}
	said, err := t.readMessage()
	if err == nil {
		t.version, err = parseGreeting(said)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return t, nil
}

func (t *telemetry) readMessage() ([]byte, error) {
	if err := t.conn.SetDeadline(time.Now().Add(telemetryTime)); err != nil {
		return nil, err
	}
	n, err := t.conn.Read(t.buffer)
	if err != nil {
		return nil, fmt.Errorf("read the telemetry of testpmd: %w", err)
	}
	return t.buffer[:n], nil
}

// ask sends a command for the one port, and reads the answer into a value.
func (t *telemetry) ask(command string, into any) error {
	if _, err := t.conn.Write([]byte(command + ",0")); err != nil {
		return fmt.Errorf("ask testpmd for %s: %w", command, err)
	}
	said, err := t.readMessage()
	if err != nil {
		return err
	}
	return parseTelemetry(said, command, into)
}

// parseGreeting returns the version of DPDK.
func parseGreeting(said []byte) (string, error) {
	var g telemetryGreeting
	if err := json.Unmarshal(said, &g); err != nil {
		return "", fmt.Errorf("read the telemetry of testpmd: it says %s: %w", excerpt.QuoteOutput(string(said)), err)
	}
	version, ok := strings.CutPrefix(g.Version, "DPDK ")
	if !ok || version == "" {
		return "", fmt.Errorf("read the telemetry of testpmd: %s names no version of DPDK", excerpt.QuoteOutput(string(said)))
	}
	return excerpt.Line(version), nil
}

// parseTelemetry reads the answer to a command. A port that is being closed has none.
func parseTelemetry(said []byte, command string, into any) error {
	var answers map[string]json.RawMessage
	if err := json.Unmarshal(said, &answers); err != nil {
		return fmt.Errorf("read the answer of testpmd to %s: %s: %w", command, excerpt.QuoteOutput(string(said)), err)
	}
	value, found := answers[command]
	if !found || string(value) == "null" {
		return fmt.Errorf("read the answer of testpmd to %s: none in %s", command, excerpt.QuoteOutput(string(said)))
	}
	if err := json.Unmarshal(value, into); err != nil {
		return fmt.Errorf("read the answer of testpmd to %s: %s: %w", command, excerpt.QuoteOutput(string(said)), err)
	}
	return nil
}

// portStats are the counters of a port (struct rte_eth_stats). Those of a VF's port are the NIC's.
type portStats struct {
	Received *uint64 `json:"ipackets"`
	Sent     *uint64 `json:"opackets"`
	InBytes  uint64  `json:"ibytes"`
	OutBytes uint64  `json:"obytes"`
	Missed   uint64  `json:"imissed"` // for want of a free descriptor
	InErrors uint64  `json:"ierrors"`
	NoBuffer uint64  `json:"rx_nombuf"`
	OutError uint64  `json:"oerrors"`
}

const statsCommand = "/ethdev/stats"

func (t *telemetry) readStats() (s portStats, err error) {
	if err = t.ask(statsCommand, &s); err == nil {
		err = s.check()
	}
	return s, err
}

// check returns an error for an answer without the counters that figures are made of.
func (s portStats) check() error {
	if s.Received == nil || s.Sent == nil {
		return errors.New("the statistics of testpmd lack ipackets or opackets")
	}
	return nil
}

// portInfo has the part of a port's facts that the agent needs.
type portInfo struct {
	MAC string `json:"mac_addr"`
}

// linkStatus is the state of a port's link.
type linkStatus struct {
	Status string `json:"status"` // "UP" or "DOWN"
}
