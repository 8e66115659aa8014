package lab

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"os"

	"golang.org/x/crypto/ssh"
)

// A keyPair is an SSH key made for one lab.
type keyPair struct {
	signer  ssh.Signer
	private []byte // OpenSSH's format
	public  []byte // a line of authorized_keys
}

func newKeyPair(comment string) (k keyPair, err error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return k, fmt.Errorf("make the key %s: %w", comment, err)
	}
	block, err := ssh.MarshalPrivateKey(key, comment)
	if err != nil {
		return k, fmt.Errorf("encode the key %s: %w", comment, err)
	}
	err = k.UnmarshalText(pem.EncodeToMemory(block))
	return k, err
}

// MarshalText returns the private key in OpenSSH's format, for snapshots.
func (k keyPair) MarshalText() ([]byte, error) { return k.private, nil }

// UnmarshalText reads a private key in OpenSSH's format.
func (k *keyPair) UnmarshalText(private []byte) error {
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil {
		return fmt.Errorf("use the key: %w", err)
	}
	*k = keyPair{signer, bytes.Clone(private), ssh.MarshalAuthorizedKey(signer.PublicKey())}
	return nil
}

// readHostKey reads the host key that the lab's supervisor shows to its clients.
func (p paths) readHostKey() (ssh.PublicKey, error) {
	line, err := os.ReadFile(p.hostKey())
	if err != nil {
		return nil, fmt.Errorf("read the host key of the lab's supervisor: %w: take the lab down and bring it up again", err)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(line)
	if err != nil {
		return nil, fmt.Errorf("read the host key %s: %w", p.hostKey(), err)
	}
	return key, nil
}
