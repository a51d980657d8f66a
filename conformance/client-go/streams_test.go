package clientgo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
)

// The ways to a session: kubectl uses WebSocket since 1.31, and SPDY before.
var transports = map[string]func(*rest.Config, *url.URL) (remotecommand.Executor, error){
	"WebSocket": func(config *rest.Config, at *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutor(config, http.MethodGet, at.String())
	},
	"SPDY": func(config *rest.Config, at *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewSPDYExecutor(config, http.MethodPost, at)
	},
}

// running is a pod of one container with a shell, and a server on port 8080.
func running(t *testing.T, clients kubernetes.Interface, namespace string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "box"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "shell", Image: "busybox", Command: []string{"sleep", "1000"}},
			{Name: "server", Image: "registry.k8s.io/e2e-test-images/agnhost:2.53", Args: []string{"netexec"}},
		}},
	}
	_, err := clients.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
	eventually(t, func() error {
		pod, err := clients.CoreV1().Pods(namespace).Get(t.Context(), "box", metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("the pod is %v", pod.Status)
		}
		return err
	})
}

// run runs a command in a container of the pod; the one with the shell if the options name none.
func run(ctx context.Context, t *testing.T, transport string, namespace string, options *corev1.PodExecOptions,
	streams remotecommand.StreamOptions) error {
	t.Helper()
	options.Stdin, options.Stdout = streams.Stdin != nil, streams.Stdout != nil
	options.Stderr, options.TTY = streams.Stderr != nil, streams.Tty
	if options.Container == "" {
		options.Container = "shell"
	}
	request := clients(t).CoreV1().RESTClient().Post().Resource("pods").Name("box").Namespace(namespace).
		SubResource("exec").VersionedParams(options, scheme.ParameterCodec)
	executor, err := transports[transport](config(t), request.URL())
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, streams)
}

func TestProgramsInPods(t *testing.T) {
	clients := clients(t)
	namespace := namespace(t, clients)
	running(t, clients, namespace)
	for transport := range transports {
		t.Run(transport, func(t *testing.T) {
			var out, errs bytes.Buffer
			script := "echo out; echo err >&2; exit 7"
			err := run(t.Context(), t, transport, namespace,
				&corev1.PodExecOptions{Command: []string{"sh", "-c", script}},
				remotecommand.StreamOptions{Stdout: &out, Stderr: &errs})
			var code exec.CodeExitError
			if !errors.As(err, &code) {
				t.Fatalf("no exit code: %v", err)
			}
			equal(t, "the exit code", code.Code, 7)
			equal(t, "the output", out.String(), "out\n")
			equal(t, "the errors", errs.String(), "err\n")

			data := bytes.Repeat([]byte("0123456789abcdef"), 10<<20/16)
			out.Reset()
			must(t, run(t.Context(), t, transport, namespace,
				&corev1.PodExecOptions{Command: []string{"cat"}},
				remotecommand.StreamOptions{Stdin: bytes.NewReader(data), Stdout: &out}))
			equal(t, "10 MiB there and back", sha256.Sum256(out.Bytes()), sha256.Sum256(data))

			err = run(t.Context(), t, transport, namespace,
				&corev1.PodExecOptions{Command: []string{"no-such-program"}},
				remotecommand.StreamOptions{Stdout: io.Discard})
			if err == nil || !strings.Contains(err.Error(), `exec: "no-such-program": executable file not found in $PATH`) {
				t.Fatalf("a program that is missing: %v", err)
			}
			err = run(t.Context(), t, transport, namespace,
				&corev1.PodExecOptions{Container: "other", Command: []string{"ls"}},
				remotecommand.StreamOptions{Stdout: io.Discard})
			if err == nil || !strings.Contains(err.Error(), "container other is not valid for pod box") {
				t.Fatalf("a container that does not exist: %v", err)
			}
		})
	}
}

// sizes gives a terminal its sizes.
type sizes chan remotecommand.TerminalSize

func (it sizes) Next() *remotecommand.TerminalSize {
	size, is := <-it
	if !is {
		return nil
	}
	return &size
}

func TestTerminals(t *testing.T) {
	clients := clients(t)
	namespace := namespace(t, clients)
	running(t, clients, namespace)
	for transport := range transports {
		t.Run(transport, func(t *testing.T) {
			sizes := make(sizes, 2)
			sizes <- remotecommand.TerminalSize{Width: 101, Height: 33}
			reader, writer := io.Pipe()
			input, keyboard := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				ended <- run(t.Context(), t, transport, namespace,
					&corev1.PodExecOptions{Command: []string{"sh"}},
					remotecommand.StreamOptions{Stdin: input, Stdout: writer, Tty: true, TerminalSizeQueue: sizes})
				writer.Close()
			}()
			go io.WriteString(keyboard, "PS1='pro''mpt> '; tty; until [ \"$(stty size)\" = '33 101' ]; do usleep 10000; done; echo si''ze-1\n")
			seen := readUntil(t, reader, "size-1")
			if !strings.Contains(seen, "/dev/pts/") {
				t.Fatalf("no terminal: %q", seen)
			}
			sizes <- remotecommand.TerminalSize{Width: 80, Height: 24}
			go io.WriteString(keyboard, "until [ \"$(stty size)\" = '24 80' ]; do usleep 10000; done; echo si''ze-2\n")
			readUntil(t, reader, "size-2")
			// Ctrl-C ends what is in the foreground, and not the shell.
			go io.WriteString(keyboard, "sh -c \"echo ru''nning; exec sleep 1000\"\n")
			readUntil(t, reader, "running")
			// A shell may drop what is typed before it asks again.
			go io.WriteString(keyboard, "\x03")
			readUntil(t, reader, "prompt> ")
			go io.WriteString(keyboard, "echo al''ive; exit 5\n")
			readUntil(t, reader, "alive")
			go io.Copy(io.Discard, reader)
			var code exec.CodeExitError
			if err := next(t, ended); !errors.As(err, &code) || code.Code != 5 {
				t.Fatalf("the end of the shell: %v", err)
			}
			close(sizes)
		})
	}
}

// readUntil reads until a text was seen.
func readUntil(t *testing.T, from io.Reader, text string) string {
	t.Helper()
	seen := make(chan string, 1)
	go func() {
		var all strings.Builder
		piece := make([]byte, 4096)
		for !strings.Contains(all.String(), text) {
			length, err := from.Read(piece)
			all.Write(piece[:length])
			if err != nil {
				break
			}
		}
		seen <- all.String()
	}()
	all := next(t, seen)
	if !strings.Contains(all, text) {
		t.Fatalf("%q is not in %q", text, all)
	}
	return all
}

func TestManySessions(t *testing.T) {
	clients := clients(t)
	namespace := namespace(t, clients)
	running(t, clients, namespace)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ready, ended sync.WaitGroup
	failures := make(chan error, 200)
	for number := range 100 {
		transport := []string{"WebSocket", "SPDY"}[number%2]
		input, keyboard := io.Pipe()
		reader, writer := io.Pipe()
		ready.Add(1)
		ended.Add(2)
		go func() {
			defer ended.Done()
			run(ctx, t, transport, namespace, &corev1.PodExecOptions{Command: []string{"cat"}},
				remotecommand.StreamOptions{Stdin: input, Stdout: writer})
			writer.CloseWithError(io.EOF)
			input.CloseWithError(io.EOF)
		}()
		go func() {
			defer ended.Done()
			io.WriteString(keyboard, "hello")
			piece := make([]byte, 5)
			if _, err := io.ReadFull(reader, piece); err != nil || string(piece) != "hello" {
				failures <- fmt.Errorf("session %d: %q, %v", number, piece, err)
			}
			ready.Done()
			io.Copy(io.Discard, reader)
		}()
	}
	ready.Wait()
	select {
	case err := <-failures:
		t.Fatal(err)
	default:
	}
	// The clients go away, and their programs with them.
	cancel()
	ended.Wait()
	eventually(t, func() error {
		var out bytes.Buffer
		err := run(t.Context(), t, "WebSocket", namespace, &corev1.PodExecOptions{Command: []string{"ps"}},
			remotecommand.StreamOptions{Stdout: &out})
		if count := strings.Count(out.String(), " cat\n"); err == nil && count > 0 {
			err = fmt.Errorf("%d programs are left: %s", count, out.String())
		}
		return err
	})
}

func TestPorts(t *testing.T) {
	clients := clients(t)
	namespace := namespace(t, clients)
	running(t, clients, namespace)
	// A container that runs need not listen yet, and a forwarder ends when its first connection is refused.
	eventually(t, func() error {
		_, err := clients.CoreV1().Pods(namespace).ProxyGet("http", "box", "8080", "/hostname", nil).DoRaw(t.Context())
		return err
	})
	request := clients.CoreV1().RESTClient().Post().Resource("pods").Name("box").Namespace(namespace).
		SubResource("portforward")
	dialers := map[string]func() (httpstream.Dialer, error){
		"WebSocket": func() (httpstream.Dialer, error) {
			return portforward.NewSPDYOverWebsocketDialer(request.URL(), config(t))
		},
		"SPDY": func() (httpstream.Dialer, error) {
			transport, upgrader, err := spdy.RoundTripperFor(config(t))
			return spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, request.URL()), err
		},
	}
	for name, dialer := range dialers {
		t.Run(name, func(t *testing.T) {
			dialer, err := dialer()
			must(t, err)
			stop, ready := make(chan struct{}), make(chan struct{})
			forwarder, err := portforward.New(dialer, []string{"0:8080", "0:1"}, stop, ready, io.Discard, io.Discard)
			must(t, err)
			ended := make(chan error, 1)
			go func() { ended <- forwarder.ForwardPorts() }()
			next(t, closed(ready))
			ports, err := forwarder.GetPorts()
			must(t, err)
			address := fmt.Sprintf("http://127.0.0.1:%d/hostname", ports[0].Local)
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					answer, err := http.Get(address)
					if err != nil {
						t.Error(err)
						return
					}
					defer answer.Body.Close()
					body, err := io.ReadAll(answer.Body)
					if err != nil || strings.TrimSpace(string(body)) != "box" {
						t.Errorf("%q, %v", body, err)
					}
				})
			}
			all.Wait()
			// Nobody listens there.
			_, err = http.Get(fmt.Sprintf("http://127.0.0.1:%d/", ports[1].Local))
			if err == nil {
				t.Error("port 1 answers")
			}
			close(stop)
			<-ended
		})
	}
}

// closed passes on that a channel was closed.
func closed(from <-chan struct{}) <-chan bool {
	to := make(chan bool, 1)
	go func() {
		<-from
		to <- true
	}()
	return to
}
