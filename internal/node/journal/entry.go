package journal

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/culvert-net/culvert/internal/node/journal/pages"
)

// An entry of the file is a key and a sealed value: JSON (plain text in
// bucketMeta), "#" and eight hexadecimal digits, the CRC-32C of the bucket, the
// key and the JSON. bbolt has no checksums of its own, so without the seal one
// flipped bit could change a VLAN or an owner unseen. Format 1 had none.

const sealLength = len("#01234567")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksumOf(bucket, key, body []byte) string {
	h := crc32.New(castagnoli)
	for _, part := range [][]byte{bucket, {0}, key, {0}, body} {
		_, _ = h.Write(part)
	}
	return fmt.Sprintf("%08x", h.Sum32())
}

// sealEntry returns the stored form of body.
func sealEntry(bucket, key, body []byte) []byte {
	out := make([]byte, 0, len(body)+sealLength)
	return append(append(append(out, body...), '#'), checksumOf(bucket, key, body)...)
}

// unsealEntry returns the body of a stored value.
func unsealEntry(bucket, key, stored []byte) ([]byte, error) {
	if len(stored) > pages.MaxValue {
		return nil, fmt.Errorf("it has more than %d bytes, which culvertd does not read", pages.MaxValue)
	}
	at := len(stored) - sealLength
	if at < 0 || stored[at] != '#' {
		return stored, fmt.Errorf("it is not whole: its checksum is missing")
	}
	if body := stored[:at]; string(stored[at+1:]) == checksumOf(bucket, key, body) {
		return body, nil
	}
	return stored[:at], fmt.Errorf("something in it was changed: its checksum is wrong")
}

// openEntry decodes a stored value.
func openEntry[T any](bucket, key, stored []byte) (v T, err error) {
	body, err := unsealEntry(bucket, key, stored)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("it cannot be read: %w", err)
	}
	return v, nil
}

// total covers all entries but itself: their number, and the sum of their digests. It reveals a
// missing entry, or one of an earlier time, which no seal can.
type total struct {
	Entries int
	Sum     uint64
}

func (t total) String() string { return fmt.Sprintf("%d %016x", t.Entries, t.Sum) }

func parseTotal(s string) (t total, err error) {
	entries, sum, _ := strings.Cut(s, " ")
	if t.Entries, err = strconv.Atoi(entries); err == nil {
		t.Sum, err = strconv.ParseUint(sum, 16, 64)
	}
	return t, err
}

// addEntry adds an entry to the total; subtractEntry takes it out.
func (t *total) addEntry(bucket, key, stored []byte) {
	t.Entries++
	t.Sum += digestOf(bucket, key, stored)
}

func (t *total) subtractEntry(bucket, key, stored []byte) {
	t.Entries--
	t.Sum -= digestOf(bucket, key, stored)
}

// digestOf covers an entry's key and seal. An entry whose body was damaged keeps its digest: its
// seal reveals this damage, and the total reveals all other damage.
func digestOf(bucket, key, stored []byte) uint64 {
	h := fnv.New64a()
	for _, part := range [][]byte{bucket, {0}, key, {0}, stored[max(0, len(stored)-sealLength):]} {
		_, _ = h.Write(part)
	}
	return h.Sum64()
}

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// seqOf returns the number of an event's key, 0 for another key.
func seqOf(key []byte) uint64 {
	if len(key) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(key)
}
