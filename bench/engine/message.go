package engine

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/culvert-net/culvert/bench"
)

// protocol changes when two ends would misunderstand each other.
const protocol = 5

// said is the kind of a message.
type said string

const (
	hello  said = "hello"  // the client: the workload
	ready  said = "ready"  // the server: connect
	joined said = "joined" // the server: all streams are there
	start  said = "start"  // the client: traffic may go
	begin  said = "begin"  // the end that counts: the window begins
	end    said = "end"    // the end that counts: the window has ended
	other  said = "other"  // the end that does not count: its own figures
	result said = "result" // the server, when it counts: all figures
	failed said = "failed" // either: why there will be none
)

// message is one line of the control connection.
type message struct {
	Says     said            `json:"says"`
	Protocol int             `json:"protocol,omitempty"`
	Workload *bench.Workload `json:"workload,omitempty"`
	Run      *bench.Run      `json:"run,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// maxMessage bounds a line: a histogram is some ten thousand bytes.
const maxMessage = 1 << 20

func parseMessage(line []byte) (message, error) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return m, fmt.Errorf("the other end says %.80q: %w", line, err)
	}
	missing := ""
	switch m.Says {
	case hello:
		if m.Protocol != protocol {
			return m, fmt.Errorf("the other end speaks protocol %d, this one %d: use one version of culvert at both ends", m.Protocol, protocol)
		}
		if m.Workload == nil {
			missing = "workload"
		}
	case other, result:
		if m.Run == nil || !(m.Run.Seconds > 0) {
			missing = "run of some time"
		}
	case ready, joined, start, begin, end, failed:
	default:
		return m, fmt.Errorf("the other end says %.80q: use one version of culvert at both ends", line)
	}
	if missing != "" {
		return m, fmt.Errorf("the other end says %q without a %s", m.Says, missing)
	}
	return m, nil
}

// ticket opens every connection to a server, and is the content of datagrams until the server knows
// their stream. It names the measurement, and the stream or control connection within it.
type ticket struct {
	token   string // of the server: tokenSize bytes
	session uint64
	stream  uint32 // controlStream, or 0 and up
}

const (
	ticketMagic   = "culvert2"
	tokenSize     = 26 // of rand.Text
	ticketSize    = len(ticketMagic) + tokenSize + 8 + 4
	controlStream = ^uint32(0)
)

func (t ticket) encodeTicket() []byte {
	b := append(append(make([]byte, 0, ticketSize), ticketMagic...), t.token...)
	b = binary.BigEndian.AppendUint64(b, t.session)
	return binary.BigEndian.AppendUint32(b, t.stream)
}

// parseTicket reads exactly one ticket, and returns false for any other text.
func parseTicket(b []byte) (ticket, bool) {
	if len(b) != ticketSize || string(b[:len(ticketMagic)]) != ticketMagic {
		return ticket{}, false
	}
	token, b := string(b[len(ticketMagic):][:tokenSize]), b[len(ticketMagic)+tokenSize:]
	return ticket{token: token, session: binary.BigEndian.Uint64(b), stream: binary.BigEndian.Uint32(b[8:])}, true
}
