package cosmos

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/go-json-experiment/json"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// summary is what is read of an execution's document to list it.
type summary struct {
	Kind        string             `json:"kind"`
	ExecutionID string             `json:"executionId"`
	Type        string             `json:"type"`
	Status      execution.Status   `json:"status"`
	Run         int                `json:"run"`
	CreatedAt   time.Time          `json:"createdAt"`
	EndedAt     time.Time          `json:"endedAt"`
	Failure     *execution.Failure `json:"failure"`
	ETag        execution.ETag     `json:"_etag"`
}

// summaries reads documents, and passes over what is no execution.
func summaries(documents [][]byte) ([]execution.Summary, error) {
	list := make([]execution.Summary, 0, len(documents))
	for _, document := range documents {
		var s summary
		if err := json.Unmarshal(document, &s); err != nil {
			return nil, fmt.Errorf("decode: %w: %w", message.ErrRefused, err)
		}
		if s.Kind != execution.KindExecution {
			continue
		}
		reason := ""
		if s.Failure != nil {
			reason = s.Failure.Reason
		}
		list = append(list, execution.Summary{
			ExecutionID: s.ExecutionID, Type: s.Type, Status: s.Status, Run: s.Run,
			CreatedAt: s.CreatedAt, EndedAt: s.EndedAt, Reason: reason, ETag: s.ETag,
		})
	}
	return list, nil
}

// Changed reads a page of the change feed, of all partitions. The feed shows every
// document once, at its newest version, and nothing of those that have expired.
func (s *ExecutionStore) Changed(ctx context.Context, since time.Time, after string, limit int) (page []execution.Summary, next string, end bool, err error) {
	o := &operation{name: "read the change feed of executions"}
	err = s.d.onItems(ctx, o, containerExecutions, func(ctx context.Context, items *azcosmos.ContainerClient) error {
		options := &azcosmos.ChangeFeedOptions{MaxItemCount: int32(limit), StartFrom: &since, Continuation: sessionOption(after)}
		if after == "" {
			options.FeedRange = &azcosmos.FeedRange{MinInclusive: "", MaxExclusive: "FF"} // of all partitions, however they are split
		}
		answer, err := items.ReadChangeFeed(ctx, options)
		if err != nil {
			return err
		}
		next, end = answer.ContinuationToken, len(answer.Items) == 0
		page, err = summaries(answer.Items)
		return err
	})
	if err != nil {
		return nil, "", false, err
	}
	return page, next, end, nil
}

// Older lists executions that were created before a whole second. The times of the
// documents have a varying number of digits, so they are compared as texts up to
// their second: what begins with it is later.
func (s *ExecutionStore) Older(ctx context.Context, below time.Time, f execution.Filter, after string, limit int) (page []execution.Summary, next string, err error) {
	parameters := []azcosmos.QueryParameter{
		{Name: "@kind", Value: execution.KindExecution},
		{Name: "@below", Value: below.UTC().Format("2006-01-02T15:04:05")},
	}
	where := "c.kind = @kind AND c.createdAt < @below"
	oneOf := func(member string, values []string) {
		var alternatives []string
		for _, v := range values {
			name := fmt.Sprintf("@p%d", len(parameters))
			parameters = append(parameters, azcosmos.QueryParameter{Name: name, Value: v})
			alternatives = append(alternatives, member+" = "+name)
		}
		if len(alternatives) > 0 {
			where += " AND (" + strings.Join(alternatives, " OR ") + ")"
		}
	}
	statuses := make([]string, len(f.Statuses))
	for i, status := range f.Statuses {
		statuses[i] = string(status)
	}
	oneOf("c.status", statuses)
	oneOf("c.type", f.Types)
	o := &operation{name: "list older executions"}
	err = s.d.onItems(ctx, o, containerExecutions, func(ctx context.Context, items *azcosmos.ContainerClient) error {
		answer, err := items.NewQueryItemsPager(
			"SELECT c.kind, c.executionId, c.type, c.status, c.run, c.createdAt, c.endedAt, c.failure, c._etag FROM c WHERE "+where,
			azcosmos.NewPartitionKey(),
			&azcosmos.QueryOptions{PageSizeHint: int32(limit), ContinuationToken: sessionOption(after), QueryParameters: parameters},
		).NextPage(ctx)
		if err != nil {
			return err
		}
		next = ""
		if answer.ContinuationToken != nil {
			next = *answer.ContinuationToken
		}
		page, err = summaries(answer.Items)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return page, next, nil
}

// Outbox lists the outbox entries of one execution: one for a run that was not sent yet,
// or one for each part that was not begun (execution.MaxParts). The service may end a
// page anywhere, and go on.
func (s *ExecutionStore) Outbox(ctx context.Context, id string) ([]execution.Entry, error) {
	var entries []execution.Entry
	o := &operation{name: "read the outbox of " + id}
	err := s.do(ctx, o, id, func(ctx context.Context, items *azcosmos.ContainerClient) error {
		pages := items.NewQueryItemsPager("SELECT * FROM c WHERE c.kind = @kind", azcosmos.NewPartitionKeyString(id), &azcosmos.QueryOptions{
			PageSizeHint: listedPage, SessionToken: sessionOption(o.session),
			QueryParameters: []azcosmos.QueryParameter{{Name: "@kind", Value: execution.KindOutbox}},
		})
		for n := 0; pages.More() && n < emptyPages; n++ {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			for _, document := range page.Items {
				var entry execution.Entry
				if err := json.Unmarshal(document, &entry); err != nil {
					return fmt.Errorf("decode: %w: %w", message.ErrRefused, err)
				}
				entries = append(entries, entry)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}
