package servicebus

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/tidwall/jsonc"
)

// longestDeclaration bounds a file of entities.
const longestDeclaration = 4 << 20

// Declared reads the entities of a configuration of the official emulator: queues by
// their names, subscriptions as topic/subscription. What the file leaves out is zero.
func Declared(from io.Reader) (map[string]Entity, error) {
	text, err := io.ReadAll(io.LimitReader(from, longestDeclaration+1))
	if err != nil {
		return nil, fmt.Errorf("read entities: %w", err)
	}
	if len(text) > longestDeclaration {
		return nil, fmt.Errorf("read entities: the file is larger than %d bytes", longestDeclaration)
	}
	var file struct {
		UserConfig struct {
			Namespaces []struct {
				Queues []declaration
				Topics []struct {
					declaration
					Subscriptions []declaration
				}
			}
		}
	}
	if err := json.Unmarshal(jsonc.ToJSON(text), &file); err != nil {
		return nil, fmt.Errorf("read entities: %w", err)
	}
	entities := map[string]Entity{}
	var errs []error
	for _, n := range file.UserConfig.Namespaces {
		for _, q := range n.Queues {
			entities[q.Name] = q.entity(q.Name, &errs)
		}
		for _, t := range n.Topics {
			above := t.entity(t.Name, &errs)
			for _, s := range t.Subscriptions {
				e := s.entity(t.Name+"/"+s.Name, &errs)
				e.TTL = shorter(e.TTL, above.TTL)
				e.DetectsDuplicates, e.DuplicateWindow = above.DetectsDuplicates, above.DuplicateWindow
				entities[e.Name] = e
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("read entities: %w", err)
	}
	return entities, nil
}

// shorter is the shorter one of two, of which each may not be told.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// declaration is one entity of the file.
type declaration struct {
	Name       string
	Properties struct {
		LockDuration, DefaultMessageTimeToLive, DuplicateDetectionHistoryTimeWindow *string
		ForwardTo                                                                   string
		MaxDeliveryCount                                                            int
		DeadLetteringOnMessageExpiration, RequiresDuplicateDetection                bool
		RequiresSession                                                             bool
	}
}

func (d declaration) entity(name string, errs *[]error) Entity {
	p := d.Properties
	return Entity{
		Name: name, Lock: lasting(p.LockDuration, errs), MaxDelivery: p.MaxDeliveryCount, TTL: lasting(p.DefaultMessageTimeToLive, errs),
		DeadLetterExpired: p.DeadLetteringOnMessageExpiration, DetectsDuplicates: p.RequiresDuplicateDetection,
		DuplicateWindow: lasting(p.DuplicateDetectionHistoryTimeWindow, errs), RequiresSession: p.RequiresSession, Forwards: p.ForwardTo != "",
	}
}
