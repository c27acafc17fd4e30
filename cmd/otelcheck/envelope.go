package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// envelope is one thing that Application Insights is told, by the names of its
// ingestion protocol.
type envelope struct {
	Name string            `json:"name"`
	Time string            `json:"time"`
	Tags map[string]string `json:"tags"`
	Data struct {
		BaseType string   `json:"baseType"`
		BaseData baseData `json:"baseData"`
	} `json:"data"`
}

// baseData is what the kinds of telemetry have, together.
type baseData struct {
	ID           string             `json:"id,omitempty"`
	Name         string             `json:"name,omitempty"`
	Type         string             `json:"type,omitempty"`
	Target       string             `json:"target,omitempty"`
	Data         string             `json:"data,omitempty"`
	Source       string             `json:"source,omitempty"`
	URL          string             `json:"url,omitempty"`
	Duration     string             `json:"duration,omitempty"`
	ResultCode   string             `json:"resultCode,omitempty"`
	ResponseCode string             `json:"responseCode,omitempty"`
	Success      *bool              `json:"success,omitempty"`
	Message      string             `json:"message,omitempty"`
	Severity     any                `json:"severityLevel,omitempty"`
	Exceptions   []exception        `json:"exceptions,omitempty"`
	Metrics      []metric           `json:"metrics,omitempty"`
	Properties   map[string]string  `json:"properties,omitempty"`
	Measurements map[string]float64 `json:"measurements,omitempty"`
}

type exception struct {
	TypeName string `json:"typeName"`
	Message  string `json:"message"`
}

type metric struct {
	Name  string   `json:"name"`
	Value float64  `json:"value"`
	Count *int     `json:"count,omitempty"`
	Min   *float64 `json:"min,omitempty"`
	Max   *float64 `json:"max,omitempty"`
}

func (e envelope) operation() string { return e.Tags["ai.operation.id"] }
func (e envelope) parent() string    { return e.Tags["ai.operation.parentId"] }
func (e envelope) role() string      { return e.Tags["ai.cloud.role"] }
func (e envelope) instance() string  { return e.Tags["ai.cloud.roleInstance"] }

// is says whether it is a span: a request or a dependency.
func (e envelope) isSpan() bool {
	return e.Data.BaseType == "RequestData" || e.Data.BaseType == "RemoteDependencyData"
}

// links are the spans that a span links to.
func (e envelope) links() []link {
	var links []link
	if text := e.Data.BaseData.Properties["_MS.links"]; text != "" {
		if err := json.Unmarshal([]byte(text), &links); err != nil {
			return nil // as good as none, which is then missing
		}
	}
	return links
}

type link struct {
	Operation string `json:"operation_Id"`
	ID        string `json:"id"`
}

// decode reads envelopes, one on each line.
func decode(from io.Reader) ([]envelope, error) {
	var all []envelope
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var e envelope
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("read an envelope: %w", err)
		}
		all = append(all, e)
	}
	return all, lines.Err()
}

func readFile(name string) ([]envelope, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return decode(file)
}

// keepFile writes envelopes without what is only this machine's and this moment's:
// host names, and repetitions of a metric.
func keepFile(name string, all []envelope) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("find what to clean: %w", err)
	}
	var text bytes.Buffer
	seen := map[string]bool{}
	for _, e := range all {
		if e.Data.BaseType == "MetricData" {
			e.Data.BaseData.Properties = without(e.Data.BaseData.Properties)
			key := e.role() + e.Data.BaseData.Metrics[0].Name + fmt.Sprint(e.Data.BaseData.Properties)
			if seen[key] {
				continue
			}
			seen[key] = true
		}
		line, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("keep an envelope: %w", err)
		}
		text.Write(bytes.ReplaceAll(line, []byte(host), []byte("machine")))
		text.WriteByte('\n')
	}
	return os.WriteFile(name, text.Bytes(), 0o644)
}

// without leaves out what says only which process it was.
func without(properties map[string]string) map[string]string {
	kept := map[string]string{}
	for name, value := range properties {
		if !slices.ContainsFunc([]string{"host.", "telemetry.", "instrumentationlibrary.", "service."}, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			kept[name] = value
		}
	}
	return kept
}
