package cosmos

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"oneeffect/internal/message"
)

// encode writes a record as its document. Empty slices are [] and times have
// nanoseconds, which is what the library does unless told otherwise.
func encode[T any](record T) ([]byte, error) {
	text, err := json.Marshal(&record) // its address, or the library copies it
	if err != nil {
		return nil, fmt.Errorf("encode: %w: %w", message.ErrRefused, err)
	}
	return text, nil
}

// decode reads a document into a record whose unknown members are kept, but for
// the store's own (K6).
func decode(text []byte, record any, unknown *jsontext.Value) error {
	if err := json.Unmarshal(text, record); err != nil {
		return fmt.Errorf("decode: %w: %w", message.ErrRefused, err)
	}
	if *unknown == nil {
		return nil
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(*unknown, &members); err != nil {
		return fmt.Errorf("decode: %w: %w", message.ErrRefused, err)
	}
	// Every name that the store reserves begins so, and none of ours does.
	maps.DeleteFunc(members, func(name string, _ jsontext.Value) bool { return strings.HasPrefix(name, "_") })
	*unknown = nil
	if len(members) == 0 {
		return nil
	}
	kept, err := json.Marshal(members, json.Deterministic(true))
	*unknown = kept
	return err
}

var (
	errNoDate = fmt.Errorf("%w: the answer has no Date header, without which no age can be told: let the gateway's pass", message.ErrRefused)
	errNoTS   = fmt.Errorf("%w: the document has no _ts, without which no age can be told", message.ErrRefused)
)

// age is how long ago a document was written when its answer was made: both times
// are the store's, in whole seconds (K4).
func age(answer http.Header, text []byte) (time.Duration, error) {
	sent := answer.Get("Date")
	if sent == "" {
		return 0, errNoDate
	}
	now, err := http.ParseTime(sent)
	if err != nil {
		return 0, fmt.Errorf("%w: the answer's Date header: %w", message.ErrRefused, err)
	}
	var stamp struct {
		TS *int64 `json:"_ts"`
	}
	if err := json.Unmarshal(text, &stamp); err != nil {
		return 0, errors.Join(errNoTS, err)
	}
	if stamp.TS == nil {
		return 0, errNoTS
	}
	return now.Sub(time.Unix(*stamp.TS, 0)), nil
}
