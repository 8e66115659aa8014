package lab

import (
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

func newKeyPair(comment string) (keyPair, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("make the key %s: %w", comment, err)
	}
	block, err := ssh.MarshalPrivateKey(key, comment)
	if err != nil {
		return keyPair{}, fmt.Errorf("encode the key %s: %w", comment, err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return keyPair{}, fmt.Errorf("use the key %s: %w", comment, err)
	}
	return keyPair{signer, pem.EncodeToMemory(block), ssh.MarshalAuthorizedKey(signer.PublicKey())}, nil
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
