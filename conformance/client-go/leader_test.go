package clientgo

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Of three candidates one leads at a time; when it gives up, another does.
func TestLeaderElection(t *testing.T) {
	t.Parallel()
	clients := clients(t)
	namespace := namespace(t, clients)
	var leading atomic.Int32
	led := make(chan string)
	stop := map[string]context.CancelFunc{}
	done := make(chan struct{}, 3)
	for _, name := range []string{"one", "two", "three"} {
		candidate, cancel := context.WithCancel(t.Context())
		stop[name] = cancel
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: "leader"},
				Client:     clients.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: name},
			},
			LeaseDuration:   10 * time.Second,
			RenewDeadline:   8 * time.Second,
			RetryPeriod:     50 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					if leading.Add(1) != 1 {
						t.Error("two lead")
					}
					select {
					case led <- name:
						<-ctx.Done()
					case <-ctx.Done():
					}
					leading.Add(-1)
				},
				OnStoppedLeading: func() {},
			},
		})
		must(t, err)
		go func() {
			elector.Run(candidate)
			done <- struct{}{}
		}()
	}
	before := map[string]bool{}
	for range 3 {
		leader := next(t, led)
		if before[leader] {
			t.Fatalf("%s leads again", leader)
		}
		before[leader] = true
		lease, err := clients.CoordinationV1().Leases(namespace).Get(t.Context(), "leader", metav1.GetOptions{})
		must(t, err)
		equal(t, "the holder", *lease.Spec.HolderIdentity, leader)
		// The one that leads counts down before it gives the lease back: another may lead at once.
		stop[leader]()
	}
	for range 3 {
		next(t, done)
	}
}
