package evidence

import (
	"bytes"
	_ "embed"
	"fmt"

	"oneeffect/internal/message"

	"github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed record.schema.json
var schemaText []byte

// schema is the JSON Schema of a record.
type schema struct{ compiled *jsonschema.Schema }

const schemaLocation = "urn:oneeffect:" + Version

func compile() (*schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaText))
	if err != nil {
		return nil, fmt.Errorf("read the schema of records: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(schemaLocation, document); err != nil {
		return nil, fmt.Errorf("read the schema of records: %w", err)
	}
	compiled, err := c.Compile(schemaLocation)
	if err != nil {
		return nil, fmt.Errorf("read the schema of records: %w", err)
	}
	return &schema{compiled}, nil
}

// check holds a line to the schema, and decodes nothing: the library would take
// duplicate names, so read comes first.
func (s *schema) check(line []byte) error {
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
	if err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	if err := s.compiled.Validate(instance); err != nil {
		return fmt.Errorf("not as the schema says: %w", err)
	}
	return nil
}

// read decodes a line as strictly as a message, and refuses members that no record has.
func (s *schema) read(line []byte) (Record, error) {
	var r Record
	if err := message.Decode(line, &r, json.RejectUnknownMembers(true)); err != nil {
		return Record{}, err
	}
	return r, s.check(line)
}
