package main

import (
	"errors"

	"oneeffect/internal/cosmos"

	"github.com/spf13/cobra"
)

func (a *app) setup() *cobra.Command {
	return &cobra.Command{
		Use: "setup", Short: "Create the database and its containers, or compare them", Args: cobra.NoArgs,
		Long: `Create the database and its containers, from the one table that the product has,
and compare what stands with it. What exists is never changed.

With a key (the emulators) what is missing is created. With an identity it only
compares: rights on the data plane cannot create.`,
		RunE: func(c *cobra.Command, _ []string) error {
			db, err := a.store()
			if err != nil {
				return err
			}
			defer db.Close()
			err = db.Setup(c.Context())
			if errors.Is(err, cosmos.ErrDiffers) {
				return failed(err, "create or change what is listed, then run it again: partition keys cannot be changed, the rest can")
			}
			if err != nil {
				return met(a.Endpoint, err)
			}
			v := struct {
				Endpoint   string   `json:"endpoint"`
				Database   string   `json:"database"`
				Containers []string `json:"containers"`
			}{a.Endpoint, a.Database, cosmos.Containers()}
			rows := make([][]string, len(v.Containers))
			for i, name := range v.Containers {
				rows[i] = []string{v.Database, name, "as it must be"}
			}
			return a.print(v, []string{"DATABASE", "CONTAINER", "STATE"}, rows)
		},
	}
}
