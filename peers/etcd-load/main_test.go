package main

import (
	"testing"
	"time"
)

func TestQuantiles(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i+1) * time.Millisecond
	}
	for _, c := range []struct {
		sorted   []time.Duration
		share    float64
		expected float64
	}{
		{nil, 0.99, 0},
		{hundred[:1], 0.99, 1},
		{hundred, 0.50, 51},
		{hundred, 0.99, 100},
	} {
		if found := quantile(c.sorted, c.share); found != c.expected {
			t.Errorf("quantile %v of %d: %v, not %v", c.share, len(c.sorted), found, c.expected)
		}
	}
}

func TestArgumentsAreReadOrRefused(t *testing.T) {
	work, err := arguments([]string{"-endpoints", "a:1,b:2", "-clients", "3"})
	if err != nil || len(work.endpoints) != 2 || work.clients != 3 {
		t.Errorf("%+v, %v", work, err)
	}
	for _, wrong := range [][]string{{"-clients", "0"}, {"-keys", "0"}, {"-duration", "0s"}, {"more"}} {
		if _, err := arguments(wrong); err == nil {
			t.Errorf("%v was accepted", wrong)
		}
	}
}

func TestASummaryCountsAllClients(t *testing.T) {
	work := load{clients: 2, duration: 2 * time.Second}
	found := summary(work, [][]time.Duration{{time.Millisecond}, {time.Millisecond, 3 * time.Millisecond}}, []int{4, 5})
	if found.Writes != 3 || found.OtherWrites != 9 || found.WritesPerS != 1.5 || found.P99Ms != 3 {
		t.Errorf("%+v", found)
	}
}
