package clientgo

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// A seen change is what a handler of an informer was told.
type seen struct {
	sync.Mutex
	added, updated, deleted map[string]int
}

func (it *seen) handler() cache.ResourceEventHandler {
	it.added, it.updated, it.deleted = map[string]int{}, map[string]int{}, map[string]int{}
	count := func(all map[string]int) func(any) {
		return func(object any) {
			it.Lock()
			defer it.Unlock()
			name, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
			all[name]++
		}
	}
	updated := count(it.updated)
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    count(it.added),
		UpdateFunc: func(_, object any) { updated(object) },
		DeleteFunc: count(it.deleted),
	}
}

// inform runs an informer of one namespace's ConfigMaps and waits for its first list.
func inform(t *testing.T, config *rest.Config, namespace string, resync time.Duration) (cache.Store, *seen) {
	t.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(
		clientsOf(t, config), resync, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	changes := &seen{}
	_, err := informer.AddEventHandler(changes.handler())
	must(t, err)
	factory.Start(t.Context().Done())
	t.Cleanup(factory.Shutdown)
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the informer has no first list")
	}
	return informer.GetStore(), changes
}

// has waits until the informer's copy is what the server has.
func has(t *testing.T, clients kubernetes.Interface, namespace string, store cache.Store) {
	t.Helper()
	eventually(t, func() error {
		list, err := clients.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		served, kept := map[string]string{}, map[string]string{}
		for _, it := range list.Items {
			served[it.Name] = it.ResourceVersion
		}
		for _, it := range store.List() {
			object := it.(*corev1.ConfigMap)
			kept[object.Name] = object.ResourceVersion
		}
		if !maps.Equal(served, kept) {
			return fmt.Errorf("the server has %v, the informer %v", served, kept)
		}
		return nil
	})
}

// A faulty transport ends watches, and answers them with 410 as long as it is told to.
type faulty struct {
	next    http.RoundTripper
	expired atomic.Int32
	lists   atomic.Int32
	watches atomic.Int32
	open    sync.Map
}

func (it *faulty) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if query.Get("watch") == "" {
		it.lists.Add(1)
		return it.next.RoundTrip(request)
	}
	if query.Get("sendInitialEvents") != "" {
		it.lists.Add(1)
	} else if it.expired.Add(-1) >= 0 {
		const gone = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`
		return &http.Response{
			StatusCode: http.StatusGone,
			Header:     http.Header{"Content-Type": {"application/json"}},
			Body:       io.NopCloser(bytes.NewReader([]byte(gone))),
			Request:    request,
		}, nil
	}
	it.watches.Add(1)
	answer, err := it.next.RoundTrip(request)
	if err == nil {
		body := &cuttable{ReadCloser: answer.Body}
		it.open.Store(body, nil)
		answer.Body = body
	}
	return answer, err
}

// cut breaks every open watch.
func (it *faulty) cut() {
	it.open.Range(func(body, _ any) bool {
		it.open.Delete(body)
		body.(*cuttable).isCut.Store(true)
		_ = body.(*cuttable).ReadCloser.Close()
		return true
	})
}

type cuttable struct {
	io.ReadCloser
	isCut atomic.Bool
}

func (it *cuttable) Read(buffer []byte) (int, error) {
	count, err := it.ReadCloser.Read(buffer)
	if err != nil && it.isCut.Load() {
		// What a connection that ends within an answer gives.
		err = io.ErrUnexpectedEOF
	}
	return count, err
}

// An informer whose watches break, and expire, has what the server has, and tells of each change once.
func TestInformersSurviveBrokenWatches(t *testing.T) {
	t.Parallel()
	clients := clients(t)
	namespace := namespace(t, clients)
	transport := &faulty{}
	config := config(t)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		transport.next = next
		return transport
	})
	create(t, clients, namespace, "kept", "1")
	create(t, clients, namespace, "gone", "1")
	store, changes := inform(t, config, namespace, 0)
	has(t, clients, namespace, store)

	for round, fault := range []func(){
		transport.cut,
		func() { transport.expired.Store(1); transport.cut() },
	} {
		// A watch that ends in its first second without an event is replaced by a list.
		create(t, clients, namespace, fmt.Sprint("before-", round), "1")
		has(t, clients, namespace, store)
		lists := transport.lists.Load()
		fault()
		kept := settings("kept", fmt.Sprint("round ", round), nil)
		_, err := clients.CoreV1().ConfigMaps(namespace).Update(t.Context(), kept, metav1.UpdateOptions{})
		must(t, err)
		create(t, clients, namespace, fmt.Sprint("new-", round), "1")
		if round == 1 {
			err := clients.CoreV1().ConfigMaps(namespace).Delete(t.Context(), "gone", metav1.DeleteOptions{})
			must(t, err)
		}
		has(t, clients, namespace, store)
		if got := transport.lists.Load() - lists; round == 1 && got == 0 {
			t.Fatal("the informer did not list again after 410")
		} else if round == 0 && got != 0 {
			t.Fatalf("the informer listed %d times after a broken connection", got)
		}
	}

	eventually(t, func() error {
		changes.Lock()
		defer changes.Unlock()
		for name, count := range changes.added {
			if count != 1 {
				return fmt.Errorf("%s was added %d times", name, count)
			}
		}
		if count := changes.deleted[namespace+"/gone"]; count != 1 || len(changes.deleted) != 1 {
			return fmt.Errorf("deleted: %v", changes.deleted)
		}
		if count := changes.updated[namespace+"/kept"]; count != 2 {
			return fmt.Errorf("kept was updated %d times", count)
		}
		return nil
	})
}

// A resync tells of every object again, and asks the server for nothing.
func TestInformersResync(t *testing.T) {
	t.Parallel()
	clients := clients(t)
	namespace := namespace(t, clients)
	create(t, clients, namespace, "a", "1")
	// client-go resyncs at most once a second.
	_, changes := inform(t, config(t), namespace, time.Second)
	eventually(t, func() error {
		changes.Lock()
		defer changes.Unlock()
		if count := changes.updated[namespace+"/a"]; count < 2 {
			return fmt.Errorf("resynced %d times", count)
		}
		return nil
	})
}

// A watch with sendInitialEvents tells what is there, and then says by a bookmark that this was all.
func TestAWatchBeginsWithAList(t *testing.T) {
	t.Parallel()
	clients := clients(t)
	namespace := namespace(t, clients)
	made := create(t, clients, namespace, "a", "1")
	yes := true
	watch, err := clients.CoreV1().ConfigMaps(namespace).Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents:    &yes,
		AllowWatchBookmarks:  true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	must(t, err)
	defer watch.Stop()
	first := next(t, watch.ResultChan())
	equal(t, "the first event", first.Type, "ADDED")
	equal(t, "its version", first.Object.(*corev1.ConfigMap).ResourceVersion, made.ResourceVersion)
	// Each namespace has more ConfigMaps than the test's own: kube-root-ca.crt.
	event := next(t, watch.ResultChan())
	for event.Type == "ADDED" {
		event = next(t, watch.ResultChan())
	}
	equal(t, "after the objects", event.Type, "BOOKMARK")
	equal(t, "its annotation", event.Object.(*corev1.ConfigMap).Annotations[metav1.InitialEventsAnnotationKey], "true")
}
