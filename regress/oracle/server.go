package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	generatedopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/apiserver/pkg/util/webhook"
)

// A CRD server as upstream builds it, on an etcd of its own in this process.
//
// Everybody may do everything, and nothing stands between the handler and the storage: the server has no admission, as
// the server under test has none either when it runs without a kube-apiserver.
type crdServer struct {
	dir  string
	etcd *embed.Etcd
	stop context.CancelFunc
	done chan error
	side *side
}

func startEtcd(dir string) (*embed.Etcd, error) {
	config := embed.NewConfig()
	config.Dir = filepath.Join(dir, "etcd")
	config.LogLevel = "error"
	config.LogOutputs = []string{filepath.Join(dir, "etcd.log")}
	config.UnsafeNoFsync = true
	anywhere := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	config.ListenClientUrls = []url.URL{anywhere}
	config.ListenPeerUrls = []url.URL{anywhere}
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case err := <-etcd.Err():
		return nil, fmt.Errorf("etcd: %w", err)
	case <-time.After(time.Minute):
		etcd.Close()
		return nil, fmt.Errorf("etcd is not ready after a minute")
	}
}

// The parts of the server's configuration that a server without authentication, authorization and admission has.
func crdServerConfig(etcdAddress, certificates string, listener net.Listener) (*apiserver.Config, error) {
	o := options.NewCustomResourceDefinitionsServerOptions(os.Stdout, os.Stderr)
	// As kube-apiserver has it: the prefix is seen in messages about preconditions.
	o.RecommendedOptions.Etcd.StorageConfig.Prefix = "/registry"
	o.RecommendedOptions.Etcd.StorageConfig.Transport.ServerList = []string{etcdAddress}
	o.RecommendedOptions.SecureServing.Listener = listener
	o.RecommendedOptions.SecureServing.BindPort = listener.Addr().(*net.TCPAddr).Port
	o.RecommendedOptions.SecureServing.ServerCert.CertDirectory = certificates
	o.RecommendedOptions.Features.EnablePriorityAndFairness = false
	if err := o.RecommendedOptions.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil,
		[]net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, err
	}
	if err := o.Complete(); err != nil {
		return nil, err
	}

	config := genericserver.NewRecommendedConfig(apiserver.Codecs)
	for _, apply := range []func() error{
		func() error { return o.ServerRunOptions.ApplyTo(&config.Config) },
		func() error { return o.RecommendedOptions.Etcd.ApplyTo(&config.Config) },
		func() error { return o.RecommendedOptions.SecureServing.ApplyToConfig(&config.Config) },
		func() error { return o.RecommendedOptions.Features.ApplyTo(&config.Config, nil, nil) },
		func() error {
			return o.APIEnablement.ApplyTo(&config.Config, apiserver.DefaultAPIResourceConfigSource(), apiserver.Scheme)
		},
	} {
		if err := apply(); err != nil {
			return nil, err
		}
	}
	definitions := openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(generatedopenapi.GetOpenAPIDefinitions)
	namer := openapinamer.NewDefinitionNamer(apiserver.Scheme)
	config.OpenAPIConfig = genericserver.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIV3Config = genericserver.DefaultOpenAPIV3Config(definitions, namer)
	// An apply that creates, and an unsafe deletion, ask whether that is allowed.
	config.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	return &apiserver.Config{
		GenericConfig: config,
		ExtraConfig: apiserver.ExtraConfig{
			CRDRESTOptionsGetter: options.NewCRDRESTOptionsGetter(*o.RecommendedOptions.Etcd,
				config.ResourceTransformers,
				config.StorageObjectCountTracker),
			ServiceResolver: webhook.NewDefaultServiceResolver(),
			AuthResolverWrapper: webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, nil,
				config.LoopbackClientConfig, nil),
		},
	}, nil
}

func startCRDServer() (server *crdServer, err error) {
	server = &crdServer{done: make(chan error, 1)}
	defer func() {
		if err != nil {
			server.end()
		}
	}()
	if server.dir, err = os.MkdirTemp("", "kube-reports-oracle-"); err != nil {
		return server, err
	}
	if server.etcd, err = startEtcd(server.dir); err != nil {
		return server, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return server, err
	}
	config, err := crdServerConfig("http://"+server.etcd.Clients[0].Addr().String(), filepath.Join(server.dir, "pki"),
		listener)
	if err != nil {
		return server, err
	}
	built, err := config.Complete().New(genericserver.NewEmptyDelegate())
	if err != nil {
		return server, err
	}
	ctx, stop := context.WithCancel(context.Background())
	server.stop = stop
	go func() { server.done <- built.GenericAPIServer.PrepareRun().RunWithContext(ctx) }()

	trust, err := os.ReadFile(filepath.Join(server.dir, "pki", "apiserver.crt"))
	if err != nil {
		return server, err
	}
	if server.side, err = newSide("crd server", listener.Addr().String(), trust, "", ""); err != nil {
		return server, err
	}
	return server, server.side.waitReady()
}

// Serves the types of a CustomResourceDefinition.
func (server *crdServer) register(crd []byte, name, probe string) error {
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	answer, err := server.side.do(&call{method: http.MethodPost, path: path, body: string(crd), header: jsonBody})
	if err != nil {
		return err
	}
	if answer.code != http.StatusCreated {
		return fmt.Errorf("the CRD server refuses %s: %d %s", name, answer.code, answer.body)
	}
	return until(time.Minute, name+" to be served", func() bool {
		answer, err := server.side.get(probe)
		return err == nil && answer.code == http.StatusOK
	})
}

func (server *crdServer) end() {
	if server.stop != nil {
		server.stop()
		<-server.done
	}
	if server.etcd != nil {
		server.etcd.Close()
	}
	if server.dir != "" {
		os.RemoveAll(server.dir)
	}
}
