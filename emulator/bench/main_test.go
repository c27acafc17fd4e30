package main

import (
	"strings"
	"testing"
)

func TestMistakesInFlagsAreNamed(t *testing.T) {
	for want, args := range map[string][]string{
		"-run sdk2":      {"-run", "sdk2"},
		"-repeat":        {"-repeat", "0"},
		"unexpected":     {"sdk"},
		"-nonsense":      {"-nonsense"},
		"want some of s": {"-run", ""},
	} {
		if _, err := parse(args, t.Output()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s in it", args, err, want)
		}
	}
}
