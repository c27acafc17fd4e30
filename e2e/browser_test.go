package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// shots is where pictures of the pages are kept.
const shots = "screenshots"

// browser is one tab.
type browser struct {
	t       *testing.T
	ctx     context.Context
	console []string
}

var tabs context.Context // of the browser that all tests share

func TestMain(m *testing.M) {
	os.Exit(func() int {
		path := ""
		for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
			if found, err := exec.LookPath(name); err == nil {
				path = found
				break
			}
		}
		if path == "" {
			fmt.Println("FAIL: there is no browser: apt-get install chromium")
			return 1
		}
		if err := os.MkdirAll(shots, 0o755); err != nil {
			fmt.Println("FAIL:", err)
			return 1
		}
		tls := httptest.NewTLSServer(http.NotFoundHandler())
		pin := pinOf(tls.Certificate())
		tls.Close()
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
			chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("ignore-certificate-errors-spki-list", pin))
		allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
		defer stop()
		var end context.CancelFunc
		tabs, end = chromedp.NewContext(allocator)
		defer end()
		if err := chromedp.Do(tabs); err != nil {
			fmt.Println("FAIL: the browser does not start:", err)
			return 1
		}
		return m.Run()
	}())
}

// open is a tab at an address. Whatever its console says is a failure: of the policy,
// of a script.
func open(t *testing.T, address string) *browser {
	t.Helper()
	ctx, end := chromedp.NewContext(tabs)
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	b := &browser{t: t, ctx: bounded}
	console := chromedp.Console(bounded)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for m, err := range console {
			if err != nil {
				return
			}
			b.console = append(b.console, m.String())
		}
	}()
	t.Cleanup(func() {
		cancel()
		end()
		<-read
		for _, line := range b.console {
			if !strings.Contains(line, "the server responded with a status of 4") { // a refusal that is wanted
				t.Errorf("the console says: %s", line)
			}
		}
	})
	b.size(1440, 1000)
	b.do(chromedp.Navigate(address))
	return b
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatalf("%v, at\n%s", err, b.text("body"))
	}
}

func (b *browser) size(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// evaluate is the value of an expression in the page.
func evaluate[T any](b *browser, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// text is what an element says; "" if it is not there.
func (b *browser) text(selector string) string {
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ""`, selector)))
	if err != nil {
		return err.Error()
	}
	return value
}

// until waits for an expression to become true in the page, whenever it changes. A
// page that is loaded anew is looked at again.
func (b *browser) until(expression string) {
	b.t.Helper()
	for {
		_, err := chromedp.Run(b.ctx, chromedp.Poll[bool]("!!("+expression+")", chromedp.WithPollingMutation()))
		if err == nil {
			return
		}
		anew := false
		for _, says := range []string{"navigated or closed", "context with specified id", "context was destroyed"} {
			anew = anew || strings.Contains(err.Error(), says)
		}
		if !anew || b.ctx.Err() != nil {
			b.t.Fatalf("until %s: %v, at\n%s", expression, err, b.text("body"))
		}
		b.do(chromedp.WaitReady(chromedp.CSS("body")))
	}
}

func (b *browser) says(selector, want string) {
	b.t.Helper()
	if got := b.text(selector); !strings.Contains(got, want) {
		b.t.Errorf("%s says %q, want %q", selector, got, want)
	}
}

// shoot keeps pictures of the page: wide and narrow, light and dark.
func (b *browser) shoot(name string) {
	b.t.Helper()
	for _, look := range []struct {
		suffix, scheme string
		width          int64
	}{{"light", "light", 1440}, {"dark", "dark", 1440}, {"narrow", "light", 390}} {
		b.size(look.width, 900)
		b.scheme(look.scheme)
		if over := evaluate[int](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			b.t.Errorf("%s, %s: the page is %d wider than the window", name, look.suffix, over)
		}
		picture, err := b.picture()
		if err == nil {
			err = os.WriteFile(filepath.Join(shots, name+"-"+look.suffix+".png"), picture, 0o644)
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	b.size(1440, 1000)
	b.scheme("light")
}

// picture is the whole page. Chromium draws no frame at times for a page that nothing
// changes, and then never answers; asked again, it draws one.
func (b *browser) picture() (picture []byte, err error) {
	for range 3 {
		ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
		picture, err = chromedp.Run(ctx, chromedp.FullScreenshot(100))
		cancel()
		if err == nil || b.ctx.Err() != nil {
			break
		}
		b.t.Logf("a picture did not come: %v", err)
	}
	return picture, err
}

func (b *browser) scheme(name string) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}); err != nil {
		b.t.Fatal(err)
	}
}
