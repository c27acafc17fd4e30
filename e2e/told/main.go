// Command told reads what `go test -json` writes, shows what tests say, and ends with
// one line that is counted from it.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

func main() {
	tests, failed, ended := 0, 0, false
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var e struct{ Action, Test, Output string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Println(lines.Text())
			continue
		}
		switch {
		case e.Action == "output" && !strings.HasPrefix(strings.TrimSpace(e.Output), "==="):
			fmt.Print(e.Output)
		case e.Action == "pass" && e.Test != "":
			tests++
		case e.Action == "fail" && e.Test != "":
			tests, failed = tests+1, failed+1
		case e.Test == "" && (e.Action == "pass" || e.Action == "fail"):
			ended = e.Action == "pass"
		}
	}
	shots, _ := os.ReadDir("screenshots")
	fmt.Printf("browser: %d tests, %d failed, %d screenshots in e2e/screenshots/\n", tests, failed, len(shots))
	if !ended || failed > 0 || tests == 0 {
		os.Exit(1)
	}
}
