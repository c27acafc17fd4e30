package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"oneeffect/internal/claim"
	"oneeffect/internal/message"

	"github.com/spf13/cobra"
)

func (a *app) claims() *cobra.Command {
	return group("claims", "Look at claims, as they stand in the store", a.claimsGet())
}

func (a *app) claimsGet() *cobra.Command {
	return &cobra.Command{
		Use: "get ID", Short: "Read the claim of an execution", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeIDs(),
		Long: `Read the claim of an execution from the store itself, whatever the orchestrator makes
of it. It needs the right to read in Cosmos DB.

The age is that of its last write, by the store's own clock. A lease that is over may be
taken by anybody, once the margin of who takes it has passed too.`,
		Example: `  taskctl claims get 82f3`,
		RunE: func(c *cobra.Command, args []string) error {
			if _, err := at(args[0], ""); err != nil {
				return err
			}
			db, err := a.store()
			if err != nil {
				return err
			}
			defer db.Close()
			stored, err := db.Claims().Record(args[0]).Read(c.Context())
			if errors.Is(err, message.ErrNotFound) {
				return failed(fmt.Errorf("nobody has a claim on %q", args[0]), "taskctl get "+args[0]+" shows whether there is such an execution: its task may not have been taken yet")
			}
			if err != nil {
				return met(a.Endpoint, err)
			}
			return a.showClaim(stored)
		},
	}
}

// standing says what the owner of a claim has of its lease.
func standing(s claim.Stored) string {
	lease := time.Duration(s.Claim.LeaseSeconds) * time.Second
	switch {
	case s.Claim.Status != claim.InProgress:
		return "none"
	case s.Claim.Released:
		return "released"
	case s.Age > lease:
		return fmt.Sprintf("%v, over since %v", lease, (s.Age - lease).Round(time.Second))
	}
	return fmt.Sprintf("%v, %v left", lease, (lease - s.Age).Round(time.Second))
}

func (a *app) showClaim(s claim.Stored) error {
	c, paint := s.Claim, painter(a.stdout, a.env)
	colour := yellow
	switch c.Status {
	case claim.Completed:
		colour = green
	case claim.Failed:
		colour = red
	}
	rows := [][]string{
		{"claim", plain(c.ID)},
		{"type", plain(c.TaskType)},
		{"status", paint(colour, plain(string(c.Status)))},
		{"run", strconv.Itoa(c.Run)},
		{"fence", strconv.FormatInt(c.Fence, 10)},
		{"owner", plain(c.Owner)},
		{"age", s.Age.Round(time.Second).String()},
		{"lease", standing(s)},
		{"keyed", strconv.FormatBool(c.Keyed)},
		{"call started", strconv.FormatBool(c.CallStarted)},
		{"first call", clock(c.FirstCallAt)},
		{"starts", strconv.Itoa(c.Starts)},
	}
	if !c.NotBefore.IsZero() {
		rows = append(rows, []string{"not before", clock(c.NotBefore)})
	}
	if c.Result != nil {
		rows = append(rows, []string{"result", plain(c.Result.Ref)}, []string{"digest", plain(c.Result.Digest)})
	}
	if c.Failure != nil {
		rows = append(rows, []string{"failure", plain(fmt.Sprintf("%s, effect: %s: %s", c.Failure.Reason, c.Failure.Outcome, c.Failure.Description))})
	}
	rows = append(rows, []string{"etag", plain(string(s.ETag))})
	for _, g := range c.Attempts {
		rows = append(rows, []string{"grant", plain(fmt.Sprintf("fence %d  %s  %s  %s", g.Fence, clock(g.At), g.Owner, g.End))})
	}
	return a.print(struct {
		Claim      claim.Claim `json:"claim"`
		ETag       claim.ETag  `json:"etag"`
		AgeSeconds int64       `json:"ageSeconds"`
	}{c, s.ETag, int64(s.Age / time.Second)}, nil, rows)
}
