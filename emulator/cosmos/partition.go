package cosmos

import (
	"slices"
	"strconv"
	"strings"
)

// keyDefinition is how a container is partitioned.
type keyDefinition struct {
	paths   [][]string // one path of property names each
	version int64
}

// partitionKey is the value of a logical partition's key, one component per
// path; a component that the item lacks is undefined.
type partitionKey []value

// canonical makes equal keys equal strings.
func (k partitionKey) canonical() string {
	b := []byte{'['}
	for i, c := range k {
		if i > 0 {
			b = append(b, ',')
		}
		switch c := c.(type) {
		case undefined:
			b = append(b, "{}"...)
		case number:
			f := c.f
			if f == 0 {
				f = 0 // minus zero is zero
			}
			b = strconv.AppendFloat(b, f, 'g', -1, 64)
		default:
			b = appendValue(b, c)
		}
	}
	return string(append(b, ']'))
}

// maxPartitionKey is the longest text in a key. Containers of version 1 hash its
// first 101 bytes only, but store the rest: the SDK's own tests rely on it.
const maxPartitionKey = 2048

func tooLong(k partitionKey) bool {
	return slices.ContainsFunc(k, func(c value) bool {
		s, ok := c.(string)
		return ok && len(s) > maxPartitionKey
	})
}

// of reads the key out of an item.
func (d keyDefinition) of(item *object) (partitionKey, *failure) {
	key := make(partitionKey, len(d.paths))
	for i, path := range d.paths {
		v := follow(item, path)
		switch v.(type) {
		case []any, *object:
			return nil, badRequest("The partition key value at /%s is %s; it must be a string, a number, a boolean or null.", strings.Join(path, "/"), kindName(v))
		}
		key[i] = v
	}
	if tooLong(key) {
		return nil, badRequest("The partition key of the item is longer than the service stores.")
	}
	return key, nil
}

func follow(v value, path []string) value {
	for _, name := range path {
		v = step(v, name)
	}
	return v
}

// parse reads the header that names a logical partition. An absent header is nil.
func (d keyDefinition) parse(header string) (partitionKey, *failure) {
	if header == "" {
		return nil, nil
	}
	v, err := parseValue([]byte(header))
	if err != nil {
		// The Go SDK quotes strings as Go does, which is not always JSON.
		if v, err = parseGoQuoted(header); err != nil {
			return nil, badRequest("Partition key %s is invalid: it must be a JSON array.", header)
		}
	}
	list, ok := v.([]any)
	if !ok {
		return nil, badRequest("Partition key %s is invalid: it must be a JSON array.", header)
	}
	key := partitionKey(list)
	for i, c := range key {
		switch c := c.(type) {
		case *object:
			if len(c.members) > 0 {
				return nil, badRequest("Partition key %s is invalid: an object in it must be {}.", header)
			}
			key[i] = undefined{}
		case []any:
			return nil, badRequest("Partition key %s is invalid: it holds an array.", header)
		}
	}
	if len(key) != len(d.paths) {
		return nil, &failure{400, partitionKeyMismatch, "Partition key provided either doesn't correspond to definition in the collection or doesn't match partition key field values specified in the document."}
	}
	if tooLong(key) {
		return nil, badRequest("The partition key in the header is longer than the service stores.")
	}
	return key, nil
}

// parseGoQuoted reads a JSON array whose strings are quoted as strconv.QuoteToASCII does.
func parseGoQuoted(text string) (value, error) {
	var b strings.Builder
	for text != "" {
		if text[0] != '"' {
			b.WriteByte(text[0])
			text = text[1:]
			continue
		}
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return nil, err
		}
		plain, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, err
		}
		b.Write(appendText(nil, plain))
		text = text[len(quoted):]
	}
	return parseValue([]byte(b.String()))
}

// parsePath reads a path of a partition key, a unique key or an index: names
// behind slashes, in double quotes where they hold a slash themselves.
func parsePath(text string) ([]string, bool) {
	var path []string
	for text != "" {
		if text[0] != '/' || len(text) == 1 {
			return nil, false
		}
		text = text[1:]
		if text[0] == '"' {
			quoted, err := strconv.QuotedPrefix(text)
			if err != nil {
				return nil, false
			}
			name, err := strconv.Unquote(quoted)
			if err != nil || name == "" {
				return nil, false
			}
			path = append(path, name)
			text = text[len(quoted):]
			continue
		}
		name, _, _ := strings.Cut(text, "/")
		if name == "" {
			return nil, false
		}
		path = append(path, name)
		text = text[len(name):]
	}
	return path, len(path) > 0
}
