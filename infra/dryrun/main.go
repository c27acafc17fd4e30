// Command dryrun asks a real Kubernetes API server whether it would take the manifests
// of infra/k8s: etcd, kube-apiserver and kubectl, built from their modules, on
// loopback, with the definitions of KEDA. Nothing is deployed; every object is checked
// as if it were, and a warning counts as a refusal: so say namespaces under the
// restricted standard what is wrong with a pod's template.
//
// The first build takes ten minutes of two processors or more.
package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := flag.String("root", "../..", "the repository")
	flag.Parse()
	if err := run(ctx, *root, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "k8s-dryrun:", err)
		os.Exit(1)
	}
}

// overlays are what is offered.
var overlays = []string{"infra/k8s/overlays/azure", "infra/k8s/overlays/emulator"}

func run(ctx context.Context, root string, stdout io.Writer) (err error) {
	if root, err = filepath.Abs(root); err != nil {
		return err
	}
	bin := filepath.Join(root, ".local", "infra", "bin")
	if err := build(ctx, filepath.Join(root, "infra", "dryrun"), bin, stdout); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "k8s-dryrun")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := &cluster{bin: bin, dir: dir}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.start(ctx); err != nil {
		return err
	}
	if err := c.prepare(ctx, root); err != nil {
		return err
	}
	accepted := 0
	for _, overlay := range overlays {
		output, err := c.kubectl(ctx, "apply", "--server-side", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "-k", filepath.Join(root, overlay))
		fmt.Fprint(stdout, output)
		if err != nil {
			return fmt.Errorf("%s: %w", overlay, err)
		}
		accepted += strings.Count(output, "serverside-applied (server dry run)")
	}
	_, err = fmt.Fprintf(stdout, "k8s-dryrun: %d objects accepted\n", accepted)
	return err
}

// build has the programs built, if they are not there.
func build(ctx context.Context, module, bin string, stdout io.Writer) error {
	for name, pkg := range map[string]string{
		"etcd": "go.etcd.io/etcd/server/v3", "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver", "kubectl": "k8s.io/kubernetes/cmd/kubectl",
	} {
		program := filepath.Join(bin, name)
		if _, err := os.Stat(program); err == nil {
			continue
		}
		fmt.Fprintf(stdout, "building %s; the first time takes minutes\n", name)
		command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, pkg)
		command.Dir = module
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, output)
		}
	}
	return nil
}

// cluster is etcd and an API server, and nothing that would run a pod.
type cluster struct {
	bin, dir  string
	server    string
	token     string
	processes []*exec.Cmd
}

func (c *cluster) start(ctx context.Context) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	client, peer := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	if err := c.launch("etcd", "--data-dir", filepath.Join(c.dir, "etcd"), "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer, "--log-level", "error"); err != nil {
		return err
	}
	c.token, c.server = rand.Text(), "https://127.0.0.1:"+ports[2]
	tokens, key := filepath.Join(c.dir, "tokens"), filepath.Join(c.dir, "key")
	if err := os.WriteFile(tokens, []byte(c.token+`,admin,admin,"system:masters"`+"\n"), 0o600); err != nil {
		return err
	}
	if err := writeKey(key); err != nil {
		return err
	}
	if err := c.launch("kube-apiserver", "--etcd-servers", client, "--bind-address", "127.0.0.1", "--secure-port", ports[2], "--cert-dir", filepath.Join(c.dir, "certificates"),
		"--token-auth-file", tokens, "--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.0.0.0/24", "--disable-admission-plugins", "ServiceAccount",
		"--service-account-issuer", "https://dryrun.invalid", "--service-account-key-file", key, "--service-account-signing-key-file", key); err != nil {
		return err
	}
	return c.until(ctx, "the API server is ready", func(ctx context.Context) error {
		_, err := c.kubectl(ctx, "get", "--raw", "/readyz")
		return err
	})
}

// prepare makes what a dry run cannot be without: the namespace, and the kinds of
// KEDA.
func (c *cluster) prepare(ctx context.Context, root string) error {
	if _, err := c.kubectl(ctx, "apply", "--server-side", "-f", filepath.Join(root, "infra", "k8s", "base", "namespace.yaml")); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", "github.com/kedacore/keda/v2@v2.21.0")
	command.Dir = c.dir
	output, err := command.Output()
	var told struct{ Dir string }
	if err != nil || json.Unmarshal(output, &told) != nil {
		return fmt.Errorf("download KEDA: %w", err)
	}
	if _, err := c.kubectl(ctx, "apply", "--server-side", "-f", filepath.Join(told.Dir, "config", "crd", "bases")); err != nil {
		return err
	}
	return c.until(ctx, "the kinds of KEDA are there", func(ctx context.Context) error {
		_, err := c.kubectl(ctx, "wait", "--for=condition=Established", "crd", "--all", "--timeout=10s")
		return err
	})
}

// until asks again and again: an API server has no way to tell that it is ready.
func (c *cluster) until(ctx context.Context, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(c.dir, "kube-apiserver.log")) // empty if there is none
			return fmt.Errorf("waited until %s: %w\n%s", what, err, log)
		case <-again.C:
		}
	}
}

func (c *cluster) launch(name string, args ...string) error {
	command := exec.Command(filepath.Join(c.bin, name), args...)
	log, err := os.Create(filepath.Join(c.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close() // the program has it open, too
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // none outlives this
	if err := command.Start(); err != nil {
		return err
	}
	c.processes = append(c.processes, command)
	return nil
}

// stop ends what was started, the API server first.
func (c *cluster) stop() error {
	var errs []error
	for i := len(c.processes) - 1; i >= 0; i-- {
		p := c.processes[i]
		errs = append(errs, p.Process.Kill())
		if err := p.Wait(); err != nil {
			if _, killed := errors.AsType[*exec.ExitError](err); !killed {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

func (c *cluster) kubectl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	// Its certificate is of its own making, and its address is this process's.
	all := append([]string{"--server", c.server, "--token", c.token, "--insecure-skip-tls-verify", "--kubeconfig", os.DevNull}, args...)
	command := exec.CommandContext(ctx, filepath.Join(c.bin, "kubectl"), all...)
	command.Env = append(os.Environ(), "HOME="+c.dir) // its cache goes with it
	output, err := command.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("kubectl %s: %w\n%s", args[0], err, output)
	}
	return string(output), nil
}

func writeKey(name string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	return os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600)
}

// freePorts are ports that nobody listened at a moment ago.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}
