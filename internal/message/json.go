package message

import (
	"bytes"
	"cmp"
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

// CheckCanonical says why a JSON text has no canonical form, without making it.
func CheckCanonical(text []byte) error {
	if err := checkNumbers(text); err != nil {
		return err
	}
	if !jsontext.Value(text).IsValid() {
		return cmp.Or(walk(text), errors.New("canonical form: there is more than one value, or none"))
	}
	return nil
}

// Decode reads exactly one JSON text into v, as strictly as M3 says.
func Decode(text []byte, v any, options ...json.Options) error {
	if err := checkNumbers(text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, v, options...); err != nil {
		return cmp.Or(walk(text), err)
	}
	return nil
}

// checkNumbers refuses numbers that would lose digits in a float64. It walks the
// tokens only if there may be any: whoever reads the text next finds whatever else
// is wrong with it, and then the walk says what.
func checkNumbers(text []byte) error {
	if plainNumbers(text) {
		return nil
	}
	return walk(text)
}

// walk reads the tokens, which finds duplicate names, bad UTF-8 and trailing bytes
// too.
func walk(text []byte) error {
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

// plainDigits is how many digits a number may have that is exact in a float64
// whatever they are.
const plainDigits = 15

// plainNumbers says that no number of a JSON text can be too large, by its length
// alone: none has an exponent or many digits. Of a text that is no JSON it says
// nothing.
func plainNumbers(text []byte) bool {
	digits := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			i, digits = closing(text, i), 0
		case c == '.':
		case '0' <= c && c <= '9':
			digits++
		case digits > 0 && (c == 'e' || c == 'E'):
			return false
		default:
			digits = 0
		}
		if digits > plainDigits {
			return false
		}
	}
	return true
}

// closing is where the string ends that begins there, or the end of the text.
func closing(text []byte, quote int) int {
	for i := quote + 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i
		case '\\':
			i++ // what follows ends no string
		}
	}
	return len(text)
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
