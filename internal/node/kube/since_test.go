package kube

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The API server refuses a condition without a time; a condition that did not change keeps its
// time.
func TestConditionsHaveTimes(t *testing.T) {
	ready := condition("Ready", metav1.ConditionTrue)
	first := keepTransitionTimes(nil, []metav1.Condition{ready})
	if len(first) != 1 || first[0].LastTransitionTime.IsZero() {
		t.Fatalf("%+v", first)
	}
	old := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	first[0].LastTransitionTime = old
	there := []metav1.Condition{first[0], {Type: "Gone", Status: metav1.ConditionTrue, LastTransitionTime: old}}
	same := keepTransitionTimes(there, []metav1.Condition{ready})
	if len(same) != 1 || same[0].LastTransitionTime != old {
		t.Errorf("it did not change, and is %+v", same)
	}
	ready.Status = metav1.ConditionFalse
	changed := keepTransitionTimes(there, []metav1.Condition{ready})
	if len(changed) != 1 || changed[0].Status != metav1.ConditionFalse || changed[0].LastTransitionTime == old {
		t.Errorf("it changed, and is %+v", changed)
	}
}

func condition(kind string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: "Serving"}
}
