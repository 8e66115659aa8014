package journal

import "encoding/binary"

// keepEvents is how many events stay; older ones go.
const keepEvents = 1000

// Event adds an event and drops the oldest past the bound.
func (t *Tx) Event(e Event) error {
	b := t.tx.Bucket(bucketEvents)
	seq, err := b.NextSequence()
	if err != nil {
		return err
	}
	e.Seq, e.Time = seq, t.now
	if seq > keepEvents {
		if err := b.Delete(seqKey(seq - keepEvents)); err != nil {
			return err
		}
	}
	return t.put(bucketEvents, seqKey(seq), e)
}

// Events returns the events after a sequence number, oldest first.
func (t *Tx) Events(after uint64) ([]Event, error) {
	var out []Event
	c := t.tx.Bucket(bucketEvents).Cursor()
	for k, raw := c.Seek(seqKey(after + 1)); k != nil; k, raw = c.Next() {
		e, err := decode[Event](raw)
		if err != nil {
			return out, err
		}
		out = append(out, e)
	}
	return out, nil
}

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
