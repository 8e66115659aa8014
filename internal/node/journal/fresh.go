package journal

import "github.com/culvert-net/culvert/internal/vf"

const freshPrefix = "fresh "

func freshKey(pf vf.PFID) []byte { return []byte(freshPrefix + pf.String()) }

// Fresh returns the PF's settings, without the MAC, for VFs that have just been made. ok is false
// if Culvert never made any on this PF, or if the entry is damaged.
func (t *Tx) Fresh(pf vf.PFID) (a vf.Admin, ok bool) {
	stored := t.tx.Bucket(bucketMeta).Get(freshKey(pf))
	if stored == nil {
		return a, false
	}
	a, err := openEntry[vf.Admin](bucketMeta, freshKey(pf), stored)
	return a, err == nil
}

// SetFresh records the settings that Fresh returns.
func (t *Tx) SetFresh(pf vf.PFID, a vf.Admin) error {
	a.MAC = vf.MAC{}
	return t.putJSON(bucketMeta, freshKey(pf), a)
}
