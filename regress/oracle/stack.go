package main

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The server under test: a PostgreSQL server with the extension and one proxy, put together by .ci/stack.sh.
type stack struct {
	top   string // of the source tree, built
	dir   string
	proxy *exec.Cmd
	side  *side
}

func (s *stack) script(arguments ...string) (string, error) {
	command := exec.Command("/bin/bash", append([]string{filepath.Join(s.top, ".ci", "stack.sh")}, arguments...)...)
	// What it starts and leaves running must not hold our pipe open.
	output, err := os.CreateTemp("", "kube-reports-oracle-")
	if err != nil {
		return "", err
	}
	defer os.Remove(output.Name())
	defer output.Close()
	command.Stdout, command.Stderr = output, output
	failed := command.Run()
	text, err := os.ReadFile(output.Name())
	if err != nil {
		return "", err
	}
	if failed != nil {
		return "", fmt.Errorf("stack.sh %s: %w\n%s", strings.Join(arguments, " "), failed, text)
	}
	return strings.TrimSpace(string(text)), nil
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port), nil
}

func randomUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func startStack(top string) (s *stack, err error) {
	s = &stack{top: top}
	defer func() {
		if err != nil {
			s.end()
		}
	}()
	if s.dir, err = s.script("server_directory"); err != nil {
		return s, err
	}
	cluster, pki := randomUID(), filepath.Join(s.dir, "pki")
	for _, step := range [][]string{
		{"server_install", s.dir},
		{"server_start", s.dir, "", "fsync = off"},
		{"server_database", s.dir, "5432", cluster},
		{"certificates", pki},
	} {
		if _, err = s.script(step...); err != nil {
			return s, err
		}
	}
	if err = giveAway(s.dir, pki); err != nil {
		return s, err
	}
	port, err := freePort()
	if err != nil {
		return s, err
	}
	metricsPort, err := freePort()
	if err != nil {
		return s, err
	}
	log, err := os.Create(filepath.Join(pki, "proxy.log"))
	if err != nil {
		return s, err
	}
	defer log.Close()
	s.proxy = exec.Command("/bin/bash", filepath.Join(s.top, ".ci", "stack.sh"), "become_server",
		filepath.Join(s.dir, "dest", "usr", "bin", "kube-reports-proxy"),
		"--bind-address=127.0.0.1", "--secure-port="+port, "--metrics-bind-address=127.0.0.1",
		"--metrics-port="+metricsPort,
		"--tls-cert-file="+filepath.Join(pki, "serving.crt"),
		"--tls-private-key-file="+filepath.Join(pki, "serving.key"),
		"--client-ca-file="+filepath.Join(pki, "ca.crt"), "--authorization-mode=AlwaysDeny",
		"--database=host="+s.dir+" user=kube_reports_proxy dbname=kube_reports", "--cluster-id="+cluster,
		"--cluster-name=oracle",
		"--workers=2")
	s.proxy.Stdout, s.proxy.Stderr, s.proxy.Dir = log, log, "/"
	s.proxy.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err = s.proxy.Start(); err != nil {
		return s, err
	}
	trust, err := os.ReadFile(filepath.Join(pki, "ca.crt"))
	if err != nil {
		return s, err
	}
	if s.side, err = newSide("proxy", "127.0.0.1:"+port, trust, filepath.Join(pki, "admin.crt"),
		filepath.Join(pki, "admin.key")); err != nil {
		return s, err
	}
	err = s.side.waitReady()
	if err != nil {
		said, _ := os.ReadFile(filepath.Join(pki, "proxy.log"))
		err = fmt.Errorf("%w\n%s", err, said)
	}
	return s, err
}

// The server's user reads the keys; the directory belongs to that user.
func giveAway(dir, pki string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return filepath.Walk(pki, func(path string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, int(owner.Uid), int(owner.Gid))
	})
}

// Serves the types of a CustomResourceDefinition.
func (s *stack) register(crd []byte, name, probe string) error {
	command := exec.Command("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d",
		"host="+s.dir+" user=kube_reports_owner dbname=kube_reports")
	command.Stdin = strings.NewReader("SELECT kube_reports.register_crd($crd$" + string(crd) + "$crd$::jsonb)")
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("register_crd refuses %s: %w\n%s", name, err, said)
	}
	// Each of the workers reads the registry by itself.
	served := 0
	return until(time.Minute, name+" to be served", func() bool {
		s.side.client.CloseIdleConnections()
		answer, err := s.side.get(probe)
		if err != nil || answer.code != http.StatusOK {
			served = 0
			return false
		}
		served++
		return served == 16
	})
}

func (s *stack) end() {
	if s.proxy != nil && s.proxy.Process != nil {
		syscall.Kill(-s.proxy.Process.Pid, syscall.SIGTERM)
		s.proxy.Wait()
	}
	if s.dir != "" {
		s.script("server_stop", s.dir, "immediate")
		os.RemoveAll(s.dir)
	}
}
