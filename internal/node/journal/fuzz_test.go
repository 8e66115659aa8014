package journal_test

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// FuzzDamagedFile damages a real ledger by edits and makes the checks of the other tests: no memory
// fault, no panic, and no content that was not written. An edit is eight bytes: what to do, how
// much, where, and with which byte.
func FuzzDamagedFile(f *testing.F) {
	whole := image(f, 40)
	before := readContent(whole)
	edit := func(kind byte, length uint16, at uint32, with byte) []byte {
		b := binary.LittleEndian.AppendUint16([]byte{kind}, length)
		return append(binary.LittleEndian.AppendUint32(b, at), with)
	}
	f.Add(edit('x', 1, 4096*4+20, 0x10))
	f.Add(edit('t', 0, 4096*5, 0))
	f.Add(edit('i', 7, 4096*3, 9))
	f.Add(edit('d', 7, 4096*3, 0))
	f.Add(edit('s', 300, 100, 0xff))
	f.Add(append(edit('p', 4, 4096*6, 0), edit('x', 2, 16, 3)...))
	f.Fuzz(func(t *testing.T, edits []byte) {
		if len(edits) > 8*2 {
			return
		}
		spoilt := bytes.Clone(whole)
		for ; len(edits) >= 8; edits = edits[8:] {
			spoilt = damaged(spoilt, edits)
		}
		if refused := acceptable(t, before, spoilt); !refused || len(edits) == 0 {
			opens(t, spoilt)
		}
	})
}

func damaged(b, edit []byte) []byte {
	kind, n, with := edit[0], int(binary.LittleEndian.Uint16(edit[1:])), edit[7]
	if len(b) == 0 {
		return b
	}
	at := int(binary.LittleEndian.Uint32(edit[3:])) % len(b)
	end := min(at+n, len(b))
	switch kind {
	case 'x': // flip bits
		for i := at; i < end; i++ {
			b[i] ^= with
		}
	case 's': // overwrite
		for i := at; i < end; i++ {
			b[i] = with
		}
	case 't': // cut short
		return b[:at]
	case 'd': // take out
		return append(b[:at:at], b[end:]...)
	case 'i': // put in
		return bytes.Join([][]byte{b[:at], bytes.Repeat([]byte{with}, n), b[at:]}, nil)
	case 'p': // a page over another one
		from := n * 4096 % len(b)
		copy(b[at/4096*4096:], bytes.Clone(b[from:min(from+4096, len(b))]))
	}
	return b
}

// FuzzImage reads any bytes at all as a ledger.
func FuzzImage(f *testing.F) {
	f.Add([]byte{})
	f.Add(image(f, 3))
	f.Fuzz(func(_ *testing.T, image []byte) {
		c := readContent(image)
		_ = c.Problems()
	})
}
