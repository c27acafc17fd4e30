package evidence

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"oneeffect/internal/message"

	"github.com/go-json-experiment/json"
)

// seal gives a record its hash, and returns its line: the canonical form of all of it.
func seal(r *Record) ([]byte, error) {
	r.Hash = ""
	bytes, err := canonical(r)
	if err != nil {
		return nil, err
	}
	r.Hash = digest(bytes)
	return canonical(r)
}

func canonical(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return message.Canonical(text)
}

func digest(bytes []byte) string {
	sum := sha256.Sum256(bytes)
	return "sha256:" + hex.EncodeToString(sum[:])
}
