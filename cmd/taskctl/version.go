package main

import (
	"runtime"
	"runtime/debug"

	"oneeffect/cmd/internal/process"

	"github.com/spf13/cobra"
)

// built says what this program was built from.
func built() (version, revision string) {
	version, revision = "unknown", "unknown"
	about, ok := debug.ReadBuildInfo()
	if !ok {
		return version, revision
	}
	version = process.Version()
	changed := ""
	for _, s := range about.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+changes"
		}
	}
	return version, revision + changed
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Say what this program was built from", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			version, revision := built()
			v := struct {
				Version  string `json:"version"`
				Revision string `json:"revision"`
				Go       string `json:"go"`
				System   string `json:"system"`
			}{version, revision, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			return a.print(v, nil, [][]string{{"version", v.Version}, {"revision", v.Revision}, {"go", v.Go}, {"system", v.System}})
		},
	}
}
