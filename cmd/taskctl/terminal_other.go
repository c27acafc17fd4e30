//go:build !unix

package main

import (
	"io"
	"os"
)

// terminal says whether somebody looks at what is written. How many columns they have
// is not known here: 0.
func terminal(to io.Writer) (columns int, there bool) {
	f, ok := to.(*os.File)
	if !ok {
		return 0, false
	}
	about, err := f.Stat()
	return 0, err == nil && about.Mode()&os.ModeCharDevice != 0
}
