package message

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxExact is the integer up to which every integer is a float64. RFC 8785 writes
// numbers as float64, so beyond it two payloads would share one canonical form
// (RFC 7493 §2.2 warns of the same). Up to maxPlain RFC 8785 writes whole numbers
// without an exponent: 1e20 becomes 100000000000000000000.
const (
	maxExact = 1 << 53
	maxPlain = 1e21
)

// Canonical returns the RFC 8785 form of a JSON text, refusing what has none.
func Canonical(text []byte) ([]byte, error) {
	if err := checkNumbers(text); err != nil {
		return nil, err
	}
	canonical := jsontext.Value(bytes.Clone(text))
	if err := canonical.Canonicalize(); err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	return canonical, nil
}

// Decode reads exactly one JSON text into v, as strictly as M3 says.
func Decode(text []byte, v any, options ...json.Options) error {
	if err := checkNumbers(text); err != nil {
		return err
	}
	return json.Unmarshal(text, v, options...)
}

// checkNumbers walks the tokens, which finds duplicate names, bad UTF-8 and
// trailing bytes too, and refuses numbers that would lose digits in a float64.
func checkNumbers(text []byte) error {
	tokens := jsontext.NewDecoder(bytes.NewReader(text))
	for {
		token, err := tokens.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read JSON: %w", err)
		}
		if token.Kind() == '0' {
			if err := checkNumber(token.String()); err != nil {
				return fmt.Errorf("at %q: %w", tokens.StackPointer(), err)
			}
		}
	}
}

// checkNumber looks at the digits where there is no fraction and no exponent:
// 2^53 + 1 as a float64 is 2^53. With one of them, a number is refused if its
// canonical form would be, so that what was accepted once is accepted again.
func checkNumber(literal string) error {
	value, err := strconv.ParseFloat(literal, 64)
	if err != nil {
		return fmt.Errorf("the number %s is out of range", literal)
	}
	beyond := math.Abs(value) > maxExact && math.Abs(value) < maxPlain
	if !strings.ContainsAny(literal, ".eE") {
		whole, err := strconv.ParseInt(literal, 10, 64)
		beyond = err != nil || whole > maxExact || whole < -maxExact
	}
	if beyond {
		return fmt.Errorf("the integer %s is beyond 2^53: send it as a string", literal)
	}
	return nil
}
