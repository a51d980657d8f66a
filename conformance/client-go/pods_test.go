package clientgo

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a scheduler and an autoscaler do with a pod: bind it to a node, and change its resources while it runs.
func TestPodsAreBoundAndResized(t *testing.T) {
	clients := clients(t)
	namespace := namespace(t, clients)
	pods := clients.CoreV1().Pods(namespace)
	cpu := func(amount string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		SchedulerName: "example.com/mine",
		Containers:    []corev1.Container{{Name: "c", Image: "nginx", Resources: cpu("100m")}},
	}}
	_, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	must(t, err)
	nodes, err := clients.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{
		Kind: "Node", Name: nodes.Items[0].Name,
	}}
	must(t, pods.Bind(t.Context(), binding, metav1.CreateOptions{}))
	equal(t, "bound twice", errors.IsConflict(pods.Bind(t.Context(), binding, metav1.CreateOptions{})), true)
	running := func(amount string) *corev1.Pod {
		var pod *corev1.Pod
		eventually(t, func() error {
			found, err := pods.Get(t.Context(), "p", metav1.GetOptions{})
			if err != nil {
				return err
			}
			pod = found
			if status := pod.Status; len(status.ContainerStatuses) != 1 || status.ContainerStatuses[0].State.Running == nil ||
				status.ContainerStatuses[0].AllocatedResources.Cpu().String() != amount ||
				status.ObservedGeneration != pod.Generation {
				return fmt.Errorf("not running with %s: %+v", amount, status)
			}
			return nil
		})
		return pod
	}
	pod = running("100m")
	equal(t, "class", pod.Status.QOSClass, corev1.PodQOSBurstable)
	pod.Spec.Containers[0].Resources = cpu("200m")
	_, err = pods.UpdateResize(t.Context(), "p", pod, metav1.UpdateOptions{})
	must(t, err)
	pod = running("200m")
	equal(t, "restarts", pod.Status.ContainerStatuses[0].RestartCount, 0)
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	_, err = pods.UpdateResize(t.Context(), "p", pod, metav1.UpdateOptions{})
	equal(t, "requests that go", errors.IsInvalid(err), true)
}
