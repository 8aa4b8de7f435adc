package clients

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"kube-reports/regress/clients-grpc/compliance"
	"kube-reports/regress/clients-grpc/forwardv1"
)

// token is metadata of each call, as generated clients pass it on.
type token string

func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(t)}, nil
}

func (t token) RequireTransportSecurity() bool { return true }

func withToken(text string) grpc.DialOption { return grpc.WithPerRPCCredentials(token(text)) }

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func batchOf(assessment, scan string, sequence uint32, last bool, rules ...string) *forwardv1.Batch {
	batch := &forwardv1.Batch{AssessmentId: assessment, Sequence: sequence, Last: last, Prune: last,
		Scan: &forwardv1.Scan{Name: scan, Suite: "cis"}}
	for _, rule := range rules {
		batch.Results = append(batch.Results, &forwardv1.Result{Subject: "cluster.example.com", Rule: rule,
			Outcome: "FAIL", Severity: "high", Extra: map[string]string{"resourceType": "cluster"}})
	}
	return batch
}

func results(cluster, scan string) string {
	return fmt.Sprintf("SELECT count(*) FROM kube_reports.typed_result WHERE cluster = '%s' AND policy = '%s'", cluster,
		scan)
}

func expectCode(t *testing.T, err error, want codes.Code) *status.Status {
	t.Helper()
	if status.Code(err) != want {
		t.Fatalf("got %v, want %v", err, want)
	}
	return status.Convert(err)
}

func TestMutualTLS(t *testing.T) {
	client := forwardv1.NewForwardServiceClient(shared.dial(t, "ca.crt", "senders/east"))
	stored, err := client.StoreBatch(limited(t), batchOf("one", "go-mtls", 1, true, "a", "b"))
	if err != nil || stored.GetAccepted() != 2 || stored.GetChanged() != 2 || stored.GetAssessmentId() != "one" {
		t.Fatalf("%v, %v", stored, err)
	}
	shared.becomes(t, results(shared.Certified, "go-mtls"), "2")
	// A repeat gets the same answer, and stores nothing.
	again, err := client.StoreBatch(limited(t), batchOf("one", "go-mtls", 1, true, "a", "b"))
	if err != nil || again.GetChanged() != 2 {
		t.Fatalf("%v, %v", again, err)
	}
	shared.becomes(t, results(shared.Certified, "go-mtls"), "2")
}

func TestWrongCredentials(t *testing.T) {
	batch := batchOf("one", "go-wrong", 1, true, "a")
	for name, connection := range map[string]*grpc.ClientConn{
		"a token that nobody has":          shared.dial(t, "ca.crt", "", withToken("wrong")),
		"a wrong token and a certificate":  shared.dial(t, "ca.crt", "senders/east", withToken("wrong")),
		"neither":                          shared.dial(t, "ca.crt", ""),
		"a certificate of the API's users": shared.dial(t, "ca.crt", "admin"),
	} {
		client := forwardv1.NewForwardServiceClient(connection)
		_, err := client.StoreBatch(limited(t), batch)
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: %v", name, err)
		}
		stream, err := client.StoreBatches(limited(t))
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s, a stream: %v", name, err)
		}
	}
	// A client that does not know the server's CA sends nothing.
	_, err := forwardv1.NewForwardServiceClient(shared.dial(t, "senders/ca.crt", "", withToken(shared.Token))).
		StoreBatch(limited(t), batch)
	expectCode(t, err, codes.Unavailable)
	if got := shared.tell(t,
		"query SELECT count(*) FROM kube_reports.typed_result WHERE policy = 'go-wrong'"); got != "0" {
		t.Fatalf("%s results of strangers", got)
	}
}

// A receiver that is killed, and a stream that the client gives up: what was not answered is sent again, and nothing is
// lost or stored twice.
func TestCutStreams(t *testing.T) {
	const count = 40
	client := forwardv1.NewForwardServiceClient(shared.dial(t, "ca.crt", "", withToken(shared.Token)))
	answered := uint32(0)
	changed := uint64(0)
	for cut := uint32(5); answered < count; cut += 5 {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		stream, err := client.StoreBatches(ctx, grpc.WaitForReady(true))
		if err != nil {
			t.Fatal(err)
		}
		for n := answered + 1; n <= count; n++ {
			// An error of Send() says only that the stream is over: Recv() says why.
			if stream.Send(batchOf("cut", "go-cut", n, n == count, fmt.Sprintf("rule-%d", n))) != nil {
				break
			}
		}
		stream.CloseSend()
		for {
			stored, err := stream.Recv()
			if err == io.EOF {
				break
			}
			if err != nil {
				if code := status.Code(err); code != codes.Unavailable && code != codes.Canceled {
					t.Fatal(err)
				}
				break
			}
			answered = stored.GetSequence()
			changed += stored.GetChanged()
			if answered == cut && cut%10 == 5 {
				cancel()
			} else if answered == cut {
				shared.tell(t, "kill")
			}
		}
		cancel()
	}
	shared.becomes(t, results(shared.Cluster, "go-cut"), fmt.Sprint(count))
	if changed > count {
		t.Fatalf("%d results are new, of %d", changed, count)
	}
}

func TestDeadline(t *testing.T) {
	client := forwardv1.NewForwardServiceClient(shared.dial(t, "ca.crt", "", withToken(shared.Token)))
	shared.tell(t, "hold")
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := client.StoreBatch(ctx, batchOf("late", "go-deadline", 1, true, "a"))
	expectCode(t, err, codes.DeadlineExceeded)
	shared.tell(t, "release")
	stored, err := client.StoreBatch(limited(t), batchOf("late", "go-deadline", 1, true, "a"))
	if err != nil || stored.GetAccepted() != 1 {
		t.Fatalf("%v, %v", stored, err)
	}
	shared.becomes(t, results(shared.Cluster, "go-deadline"), "1")
}

// The details are those that Go programs read: the path of each wrong field.
func TestDetails(t *testing.T) {
	client := forwardv1.NewForwardServiceClient(shared.dial(t, "ca.crt", "", withToken(shared.Token)))
	batch := batchOf("wrong", "go-details", 1, true, "a", "b")
	batch.Results[0].Outcome = "MAYBE"
	batch.Results[1].Rule = strings.Repeat("x", 1001)
	_, err := client.StoreBatch(limited(t), batch)
	var fields []string
	for _, detail := range expectCode(t, err, codes.InvalidArgument).Details() {
		if request, ok := detail.(*errdetails.BadRequest); ok {
			for _, violation := range request.GetFieldViolations() {
				fields = append(fields, violation.GetField())
			}
		}
	}
	if strings.Join(fields, " ") != "results[0].outcome results[1].rule" {
		t.Fatalf("fields %v of %v", fields, err)
	}
	_, err = client.StoreBatch(limited(t), batchOf("gap", "go-details", 3, true, "a"))
	expectCode(t, err, codes.FailedPrecondition)
	large := batchOf("large", "go-details", 1, true, "a")
	large.Results[0].Description = strings.Repeat("x", 5<<20)
	_, err = client.StoreBatch(limited(t), large)
	expectCode(t, err, codes.ResourceExhausted)
}

func TestSetResult(t *testing.T) {
	client := compliance.NewComplianceServiceClient(shared.dial(t, "ca.crt", "", withToken(shared.Token)))
	request := &compliance.ResultRequest{Subject: "cluster.example.com", Control: "NIST-800-53: CM-6", Rule: "a",
		AssessmentId: "run-1", Outcome: "FAIL", Severity: "high", Extra: map[string]string{"scan": "go-single"}}
	ctx := metadata.AppendToOutgoingContext(limited(t), "clustername", "go", "clustertype", "edge")
	for range 2 {
		if _, err := client.SetResult(ctx, request); err != nil {
			t.Fatal(err)
		}
	}
	shared.becomes(t, results(shared.Cluster, "go-single"), "1")
	_, err := client.SetResult(metadata.AppendToOutgoingContext(limited(t), "clustername", "other"), request)
	expectCode(t, err, codes.PermissionDenied)
}

func TestStoreEvidence(t *testing.T) {
	client := forwardv1.NewForwardServiceClient(shared.dial(t, "ca.crt", "", withToken(shared.Token)))
	stream, err := client.StoreEvidence(limited(t))
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint32(3) {
		file := &forwardv1.EvidenceFile{Scan: "go-scan", Index: n, Name: "master-0", Sha256: strings.Repeat("0", 64),
			Bytes: 7,
			Uri:   fmt.Sprintf("s3://theirs/%d.xml", n)}
		if err := stream.Send(&forwardv1.EvidenceBatch{Files: []*forwardv1.EvidenceFile{file}}); err != nil {
			t.Fatal(err)
		}
		stored, err := stream.Recv()
		if err != nil || stored.GetAccepted() != 1 || stored.GetChanged() != 1 {
			t.Fatalf("%v, %v", stored, err)
		}
	}
	stream.CloseSend()
	if _, err := stream.Recv(); err != io.EOF {
		t.Fatal(err)
	}
	shared.becomes(t, "SELECT string_agg(uri, ' ' ORDER BY index) FROM kube_reports.evidence WHERE scan = 'go-scan'",
		"s3://theirs/0.xml s3://theirs/1.xml s3://theirs/2.xml")
}

func TestHealth(t *testing.T) {
	client := grpc_health_v1.NewHealthClient(shared.dial(t, "ca.crt", ""))
	answer, err := client.Check(limited(t),
		&grpc_health_v1.HealthCheckRequest{Service: "kube_reports.forward.v1.ForwardService"})
	if err != nil || answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", answer, err)
	}
}
