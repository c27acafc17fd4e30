package message

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits of the names that travel. The service allows 128 characters for a
// MessageID; the longest we make is an ExecutionID and 32 more, those of a copy.
const (
	MaxExecutionID = 96
	MaxType        = 64
	MaxStep        = 24
)

// CheckExecutionID says what is wrong with an execution id: 1 to 96 of
// A-Z a-z 0-9 . _ : -, but neither "." nor "..". The id is a segment of URLs, the
// store's and ours, and there these two are not names but ways to another place.
func CheckExecutionID(id string) error {
	if id == "." || id == ".." {
		return fmt.Errorf("taskExecutionId is %q, which no URL can name: choose another", id)
	}
	return checkName("taskExecutionId", id, MaxExecutionID, "._:-")
}

// CheckType says what is wrong with a task type: 1 to 64 of A-Z a-z 0-9 . _ -
func CheckType(taskType string) error {
	return checkName("task type", taskType, MaxType, "._-")
}

// CheckStep says what is wrong with a step's name: 1 to 24 of A-Z a-z 0-9 . _ -
func CheckStep(name string) error { return checkName("step", name, MaxStep, "._-") }

// Key is what a downstream is told to know a call by: the execution, and the step
// if the task has several. The fence is never in it, since the same call is the
// same whoever makes it.
func Key(executionID, step string) string {
	if step == "" {
		return executionID
	}
	return executionID + "/" + step
}

func checkName(what, name string, longest int, punctuation string) error {
	if name == "" {
		return fmt.Errorf("%s is missing: give 1 to %d of A-Z a-z 0-9 %s", what, longest, punctuation)
	}
	if len(name) > longest {
		return fmt.Errorf("%s has %d characters, %d are allowed", what, len(name), longest)
	}
	for _, r := range name {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		if !letter && !strings.ContainsRune(punctuation, r) {
			return fmt.Errorf("%s contains %q: only A-Z a-z 0-9 %s are allowed", what, r, punctuation)
		}
	}
	return nil
}

// TaskMessageID is the MessageID of the dispatch of a run. A relay that sends
// the same run again uses the same one, so that duplicate detection may save
// the work; nothing relies on it.
func TaskMessageID(executionID string, run int) string {
	if run <= 1 {
		return executionID
	}
	return executionID + "/run/" + strconv.Itoa(run)
}

// CopyMessageID is the MessageID of a delayed copy. It is fresh every time,
// since a copy that duplicate detection dropped would be a lost task.
func CopyMessageID(executionID, random string) string {
	return executionID + "/copy/" + random
}
