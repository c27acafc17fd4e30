package main

import (
	"sync"
	"testing"
)

// Whoever comes first makes the schemas; whoever comes at the same time gets the same.
func TestSchemasMayBeMadeByTwoAtOnce(t *testing.T) {
	cache := t.TempDir()
	var both sync.WaitGroup
	var folders [2]string
	for i := range folders {
		both.Go(func() {
			folder, err := schemas(t.Context(), cache)
			if err != nil {
				t.Error(err)
			}
			folders[i] = folder
			if again, err := schemas(t.Context(), cache); again != folder || err != nil {
				t.Errorf("then it is %q, %v, want %q", again, err, folder)
			}
		})
	}
	both.Wait()
	if folders[0] != folders[1] {
		t.Errorf("they are %q, want the same", folders)
	}
}
