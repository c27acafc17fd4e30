package main

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"time"

	"oneeffect/internal/evidence/probe"

	"github.com/spf13/cobra"
)

// evidenceAttempt is the process that the crash-window probe starts from this very
// program, and that kills itself. It is nobody else's.
func (a *app) evidenceAttempt() *cobra.Command {
	var at place
	var o probe.Order
	c := &cobra.Command{
		Use: "attempt", Hidden: true, Short: "Work on one delivery of the crash-window probe", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := at.check(a); err != nil {
				return err
			}
			p, end, err := a.probes(c.Context(), at)
			if err != nil {
				return err
			}
			if err := p.Deliver(c.Context(), o, a.stdout); err != nil {
				_ = end() // the delivery's error is the one that matters
				return met(a.BrokerHost(), err)
			}
			return end()
		},
	}
	at.register(c)
	c.Flags().BoolVar(&o.Broken, "broken", false, "as the broken variant, whose effect comes before its receipt")
	c.Flags().BoolVar(&o.Kill, "kill", false, "this process kills itself")
	c.Flags().StringVar(&o.Token, "token", "", "mark of the run")
	c.Flags().StringVar(&o.Delivery, "delivery", "", "MessageID")
	return c
}

// waitDelay is how long a process's pipes may stay open after its end.
const waitDelay = 5 * time.Second

// attempt prepares that process, with this one's settings and environment.
func (a *app) attempt(at place) func(context.Context, probe.Order) *exec.Cmd {
	return func(ctx context.Context, o probe.Order) *exec.Cmd {
		program, err := os.Executable()
		if err != nil {
			program = os.Args[0]
		}
		args := []string{
			"evidence", "attempt", "--id=" + a.ID, "--log-level=" + a.LogLevel.String(), "--store-timeout=" + a.StoreLimit.String(),
			"--cosmos-endpoint=" + a.Endpoint, "--cosmos-database=" + a.Database, "--evidence-database=" + at.database,
			"--topic=" + at.topic, "--subscription=" + at.subscription, "--lock=" + at.lock.String(),
			"--broken=" + strconv.FormatBool(o.Broken), "--kill=" + strconv.FormatBool(o.Kill), "--token=" + o.Token, "--delivery=" + o.Delivery,
		}
		if a.Namespace != "" {
			args = append(args, "--servicebus-namespace="+a.Namespace)
		}
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Env, cmd.WaitDelay = a.env, waitDelay
		return cmd
	}
}
