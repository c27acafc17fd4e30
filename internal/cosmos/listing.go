package cosmos

import (
	"context"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/go-json-experiment/json"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// No order: the gateway serves none across partitions. Now is the store's own, in
// the form that uses the index of _ts.
const (
	queryUnsent    = "SELECT * FROM c WHERE c.kind = @kind AND c._ts <= GetCurrentTimestampStatic() / 1000 - @least"
	queryUnchanged = "SELECT c.id, c._ts FROM c WHERE c.kind = @kind AND c.status = @status" +
		" AND c._ts <= GetCurrentTimestampStatic() / 1000 - @least AND c._ts >= GetCurrentTimestampStatic() / 1000 - @most"

	listedPage = 100
	emptyPages = 256 // of one question: the service may find nothing on a page and go on
)

// Unsent lists outbox entries older than age by the store's clock.
func (s *ExecutionStore) Unsent(ctx context.Context, age time.Duration, after execution.Cursor) ([]execution.Entry, execution.Cursor, error) {
	return listed[execution.Entry](ctx, s.d, "list unsent outbox entries", queryUnsent, after, age, []azcosmos.QueryParameter{
		{Name: "@kind", Value: execution.KindOutbox}, {Name: "@least", Value: age.Seconds()},
	})
}

// Unchanged lists executions in a state by the time of their last write.
func (s *ExecutionStore) Unchanged(ctx context.Context, in execution.Status, least, most time.Duration, after execution.Cursor) ([]string, execution.Cursor, error) {
	rows, next, err := listed[struct {
		ID string `json:"id"`
	}](ctx, s.d, "list "+string(in)+" executions", queryUnchanged, after, least, []azcosmos.QueryParameter{
		{Name: "@kind", Value: execution.KindExecution}, {Name: "@status", Value: string(in)},
		{Name: "@least", Value: least.Seconds()}, {Name: "@most", Value: most.Seconds()},
	})
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	return ids, next, err
}

// listed is the next page that has something on it. The ages are looked at again: a
// partition's clock may be ahead of the gateway's, which every other age is told by.
func listed[Row any](ctx context.Context, d *Database, name, query string, after execution.Cursor, least time.Duration, parameters []azcosmos.QueryParameter) (rows []Row, next execution.Cursor, err error) {
	next = after
	for range emptyPages {
		o := &operation{name: name}
		err = d.onItems(ctx, o, containerExecutions, func(ctx context.Context, items *azcosmos.ContainerClient) error {
			page, err := items.NewQueryItemsPager(query, azcosmos.NewPartitionKey(), &azcosmos.QueryOptions{
				PageSizeHint: listedPage, ContinuationToken: sessionOption(string(next)), QueryParameters: parameters,
			}).NextPage(ctx)
			if err != nil {
				return err
			}
			next = ""
			if page.ContinuationToken != nil {
				next = execution.Cursor(*page.ContinuationToken)
			}
			for _, document := range page.Items {
				since, err := age(page.RawResponse.Header, document)
				if err != nil {
					return err
				}
				if since < least {
					continue
				}
				var row Row
				if err := json.Unmarshal(document, &row); err != nil {
					return fmt.Errorf("decode: %w: %w", message.ErrRefused, err)
				}
				rows = append(rows, row)
			}
			return nil
		})
		if err != nil || next == "" || len(rows) > 0 {
			break
		}
	}
	if err != nil {
		return nil, "", err
	}
	return rows, next, nil
}

// Redispatched reads the count of an execution's re-dispatches.
func (s *ExecutionStore) Redispatched(ctx context.Context, id string) (execution.Redispatched, error) {
	var counted execution.Redispatched
	o := &operation{name: "read the re-dispatches of " + id}
	err := s.do(ctx, o, id, func(ctx context.Context, items *azcosmos.ContainerClient) error {
		answer, err := items.ReadItem(ctx, azcosmos.NewPartitionKeyString(id), execution.RedispatchID, &azcosmos.ItemOptions{SessionToken: sessionOption(o.session)})
		if err != nil {
			return err
		}
		counted.ETag = execution.ETag(answer.ETag)
		if counted.Age, err = age(answer.RawResponse.Header, answer.Value); err != nil {
			return err
		}
		if err := json.Unmarshal(answer.Value, &counted.Redispatch); err != nil {
			return fmt.Errorf("decode: %w: %w", message.ErrRefused, err)
		}
		return nil
	})
	if err != nil {
		return execution.Redispatched{}, err
	}
	return counted, nil
}

// Redispatch writes a count over the version that the ETag names, or the first one.
func (s *ExecutionStore) Redispatch(ctx context.Context, r execution.Redispatch, unchanged execution.ETag) error {
	name := "count a re-dispatch of " + r.ExecutionID
	document, err := encode(r)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	key := azcosmos.NewPartitionKeyString(r.ExecutionID)
	if unchanged == "" {
		return s.do(ctx, &operation{name: name, write: true, create: true}, r.ExecutionID, func(ctx context.Context, items *azcosmos.ContainerClient) error {
			_, err := items.CreateItem(ctx, key, document, nil)
			return err
		})
	}
	condition := azcore.ETag(unchanged)
	return s.do(ctx, &operation{name: name, write: true}, r.ExecutionID, func(ctx context.Context, items *azcosmos.ContainerClient) error {
		_, err := items.ReplaceItem(ctx, key, r.ID, document, &azcosmos.ItemOptions{IfMatchEtag: &condition})
		return err
	})
}
