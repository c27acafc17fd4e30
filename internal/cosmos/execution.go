package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/go-json-experiment/json/jsontext"

	"oneeffect/internal/execution"
	"oneeffect/internal/message"
)

// ExecutionStore keeps an execution and its outbox in one partition.
type ExecutionStore struct{ d *Database }

var _ execution.Store = (*ExecutionStore)(nil)

// Create writes execution and outbox entries in one transactional batch, or none.
func (s *ExecutionStore) Create(ctx context.Context, e execution.Execution, entries ...execution.Entry) (execution.ETag, error) {
	name := "create execution " + e.ID
	document, err := encode(e)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	outbox := make([][]byte, len(entries))
	for i, entry := range entries {
		if outbox[i], err = encode(entry); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
	}
	var etag azcore.ETag
	err = s.do(ctx, &operation{name: name, write: true, create: true}, e.ID, func(ctx context.Context, items *azcosmos.ContainerClient) error {
		batch := items.NewTransactionalBatch(azcosmos.NewPartitionKeyString(e.ID))
		batch.CreateItem(document, nil)
		for _, entry := range outbox {
			batch.CreateItem(entry, nil)
		}
		made, err := atOnce(ctx, items, batch)
		etag = made
		return err
	})
	if err != nil {
		return "", err
	}
	return execution.ETag(etag), nil
}

// atOnce carries out a batch, all of it or nothing, and returns the ETag that its
// first operation has made.
func atOnce(ctx context.Context, items *azcosmos.ContainerClient, batch azcosmos.TransactionalBatch) (azcore.ETag, error) {
	answer, err := items.ExecuteTransactionalBatch(ctx, batch, nil)
	if err != nil {
		return "", err
	}
	if !answer.Success {
		return "", refusedBy(answer.OperationResults)
	}
	var etag azcore.ETag
	if len(answer.OperationResults) > 0 {
		etag = answer.OperationResults[0].ETag
	}
	return etag, versioned(etag, nil)
}

// refusedBy finds the operation that a batch was rolled back for: the first one
// that does not merely depend on another.
func refusedBy(results []azcosmos.TransactionalBatchResult) refusal {
	for _, r := range results {
		if r.StatusCode >= 300 && r.StatusCode != http.StatusFailedDependency {
			return refusal{int(r.StatusCode)}
		}
	}
	return refusal{http.StatusFailedDependency}
}

// Load reads an execution, no older than this process has seen it.
func (s *ExecutionStore) Load(ctx context.Context, id string) (execution.Stored, error) {
	var stored execution.Stored
	o := &operation{name: "load execution " + id}
	err := s.do(ctx, o, id, func(ctx context.Context, items *azcosmos.ContainerClient) error {
		answer, err := items.ReadItem(ctx, azcosmos.NewPartitionKeyString(id), id, &azcosmos.ItemOptions{SessionToken: sessionOption(o.session)})
		if err != nil {
			return err
		}
		stored, err = shown(answer)
		return err
	})
	if err != nil {
		return execution.Stored{}, err
	}
	return stored, nil
}

// Change applies a transition in one conditional patch: what it does not name stays
// as it is, whoever wrote it.
func (s *ExecutionStore) Change(ctx context.Context, id string, change execution.Change, unchanged execution.ETag) (execution.ETag, error) {
	name := "change execution " + id
	patch, err := patchFor(change)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	condition, err := ifMatch(string(unchanged))
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	var etag azcore.ETag
	err = s.do(ctx, &operation{name: name, write: true}, id, func(ctx context.Context, items *azcosmos.ContainerClient) error {
		answer, err := items.PatchItem(ctx, azcosmos.NewPartitionKeyString(id), id, patch, &azcosmos.ItemOptions{IfMatchEtag: condition})
		etag = answer.ETag
		return versioned(etag, err)
	})
	if err != nil {
		return "", err
	}
	return execution.ETag(etag), nil
}

// Reopen writes another run and its outbox entry in one transactional batch.
func (s *ExecutionStore) Reopen(ctx context.Context, id string, change execution.Change, entry execution.Entry, unchanged execution.ETag) (execution.ETag, error) {
	name := "reopen execution " + id
	patch, err := patchFor(change)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	outbox, err := encode(entry)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	condition, err := ifMatch(string(unchanged))
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	var etag azcore.ETag
	err = s.do(ctx, &operation{name: name, write: true}, id, func(ctx context.Context, items *azcosmos.ContainerClient) error {
		batch := items.NewTransactionalBatch(azcosmos.NewPartitionKeyString(id))
		batch.PatchItem(id, patch, &azcosmos.TransactionalBatchItemOptions{IfMatchETag: condition})
		batch.CreateItem(outbox, nil)
		made, err := atOnce(ctx, items, batch)
		etag = made
		return err
	})
	if err != nil {
		return "", err
	}
	return execution.ETag(etag), nil
}

// patching is patch operations whose values are written by encode: the SDK's own
// encoder would write them otherwise.
type patching struct {
	azcosmos.PatchOperations
	failed error
}

func (p *patching) set(path string, value any) { p.with(p.AppendSet, path, value) }

func (p *patching) with(add func(string, any), path string, value any) {
	text, err := encode(value)
	p.failed = errors.Join(p.failed, err)
	add(path, jsontext.Value(text))
}

// note appends to the history; the zero note is none.
func (p *patching) note(n execution.Note) {
	if n != (execution.Note{}) {
		p.with(p.AppendAdd, "/history/-", n)
	}
}

func (p *patching) join(j execution.Joined) {
	part := "/tasks/" + strconv.Itoa(j.Index)
	p.set(part+"/status", j.Part.Status)
	p.set(part+"/run", j.Part.Run)
	p.set(part+"/resultRef", j.Part.Ref)
	p.set(part+"/resultDigest", j.Part.Digest)
	p.set(part+"/reason", j.Part.Reason)
}

// patchFor is the change as patch operations, at most ten, which the service takes.
// The state that it leaves, and its run, are a condition of their own: an ETag fits
// the version that it names, whatever its bearer believes of that.
func patchFor(change execution.Change) (azcosmos.PatchOperations, error) {
	var p patching
	switch change.From {
	case execution.Running, execution.Completed, execution.Failed, execution.Cancelled:
		condition := "FROM c WHERE c.status = '" + string(change.From) + "'"
		if change.FromRun > 0 {
			condition += " AND c.run = " + strconv.Itoa(change.FromRun)
		}
		p.SetCondition(condition)
	default:
		p.failed = fmt.Errorf("%w: a change from no state, %q", message.ErrRefused, change.From)
	}
	p.set("/status", change.Status)
	if !change.EndedAt.IsZero() {
		p.set("/endedAt", change.EndedAt)
	}
	if change.Result != nil {
		p.set("/result", change.Result)
	}
	if change.Failure != nil {
		p.set("/failure", change.Failure)
	}
	if r := change.Reopened; r != nil {
		p.set("/run", r.Run)
		p.set("/deadline", r.Deadline)
		p.set("/asserted", r.Asserted)
		p.AppendRemove("/endedAt")
		p.AppendRemove("/failure")
	}
	if j := change.Joined; j != nil {
		p.join(*j)
	}
	p.note(change.Note)
	return p.PatchOperations, p.failed
}

// Join writes the end of a part without having looked: that the part runs is the
// condition, and whatever else changes meanwhile is no obstacle. The answer brings
// the whole document, which says whether it was the last one.
func (s *ExecutionStore) Join(ctx context.Context, id string, j execution.Joined, n execution.Note) (execution.Stored, error) {
	name := "join " + j.Part.ExecutionID + " into " + id
	if err := message.CheckExecutionID(j.Part.ExecutionID); err != nil { // it stands in the condition, between quotes
		return execution.Stored{}, fmt.Errorf("%s: %w: %w", name, message.ErrRefused, err)
	}
	var p patching
	part := "c.tasks[" + strconv.Itoa(j.Index) + "]"
	p.SetCondition("FROM c WHERE " + part + ".executionId = '" + j.Part.ExecutionID + "' AND " + part + ".status = '" + string(execution.Running) + "'")
	p.join(j)
	p.note(n)
	if p.failed != nil {
		return execution.Stored{}, fmt.Errorf("%s: %w", name, p.failed)
	}
	var stored execution.Stored
	err := s.do(ctx, &operation{name: name, write: true}, id, func(ctx context.Context, items *azcosmos.ContainerClient) error {
		answer, err := items.PatchItem(ctx, azcosmos.NewPartitionKeyString(id), id, p.PatchOperations, &azcosmos.ItemOptions{EnableContentResponseOnWrite: true})
		if err := versioned(answer.ETag, err); err != nil {
			return err
		}
		if len(answer.Value) == 0 {
			return errors.New("the answer does not show what it made") // to be read back like a lost one
		}
		stored, err = shown(answer)
		return err
	})
	if err != nil {
		return execution.Stored{}, err
	}
	return stored, nil
}

// shown is an execution as an answer shows it.
func shown(answer azcosmos.ItemResponse) (execution.Stored, error) {
	s := execution.Stored{ETag: execution.ETag(answer.ETag)}
	s.At, _ = http.ParseTime(answer.RawResponse.Header.Get("Date"))
	return s, decode(answer.Value, &s.Execution, &s.Execution.Unknown)
}

// Sent removes an outbox entry. One that is gone was removed by somebody who sent
// the same message.
func (s *ExecutionStore) Sent(ctx context.Context, entry execution.Entry) error {
	o := &operation{name: "remove outbox entry " + entry.ID, write: true}
	err := s.do(ctx, o, entry.ExecutionID, func(ctx context.Context, items *azcosmos.ContainerClient) error {
		_, err := items.DeleteItem(ctx, azcosmos.NewPartitionKeyString(entry.ExecutionID), entry.ID, nil)
		return err
	})
	if errors.Is(err, message.ErrNotFound) {
		return nil
	}
	return err
}

// do is onItems with the session of one execution.
func (s *ExecutionStore) do(ctx context.Context, o *operation, id string, send func(context.Context, *azcosmos.ContainerClient) error) error {
	o.session = s.d.sessions.of(id)
	err := s.d.onItems(ctx, o, containerExecutions, send)
	s.d.sessions.remember(id, o.session)
	return err
}
