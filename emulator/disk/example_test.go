package disk_test

import (
	"fmt"
	"log"
	"os"

	"oneeffect/emulator/disk"
)

// An operation is kept as a whole, and an answer is given when everything before it is on disk.
func Example() {
	folder, err := os.MkdirTemp("", "disk-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)

	store, err := disk.Open(folder, disk.Options{Schema: "accounts 1"})
	if err != nil {
		log.Fatal(err)
	}
	store.Begin()
	store.Put("balances", []byte("anna"), []byte("70"))
	store.Put("balances", []byte("bert"), []byte("30"))
	store.End()
	kept := make(chan struct{})
	store.Kept(func() { close(kept) })
	<-kept // from here on no crash takes it back
	if err := store.Close(); err != nil {
		log.Fatal(err)
	}

	_, err = disk.Open(folder, disk.Options{Schema: "accounts 2"})
	fmt.Println("another schema is refused:", err != nil)

	again, err := disk.Open(folder, disk.Options{Schema: "accounts 1"})
	if err != nil {
		log.Fatal(err)
	}
	defer again.Close()
	err = again.Load(func(bucket string, key, value []byte) error {
		fmt.Printf("%s: %s has %s\n", bucket, key, value)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// another schema is refused: true
	// balances: anna has 70
	// balances: bert has 30
}
