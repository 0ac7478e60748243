// What the programs share: where the store is, what they say, and how calls are made again.
package main

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

var (
	address = strings.TrimPrefix(os.Getenv("BASALT_URL"), "redis://")
	killed  = os.Getenv("BASALT_SITUATION") == "killed"
	failed  atomic.Int64
)

func list(name string) []string { return strings.Split(os.Getenv(name), ",") }

// half: the node that leads the shard of the key, or of database 0, is to be killed now.
func half(key string) { fmt.Println(strings.TrimSpace("HALF " + key)) }

func ok(format string, args ...any) {
	fmt.Printf("OK "+format+"\n", args...)
	os.Exit(0)
}

func check(holds bool, format string, args ...any) {
	if !holds {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
		os.Exit(1)
	}
}

// again makes a call again where it fails, as an application does whose server is replaced, and counts failures.
func again(call func() error) {
	for left := 60; ; left-- {
		err := call()
		if err == nil {
			return
		}
		failed.Add(1)
		fmt.Fprintln(os.Stderr, "made again after", err)
		check(left > 0 && killed, "%v", err)
		time.Sleep(250 * time.Millisecond)
	}
}

func madeAgain() string {
	if failed.Load() == 0 {
		return ""
	}
	return fmt.Sprintf("; %d calls made again", failed.Load())
}

// until waits until something holds.
func until(holds func() bool, why func() string) {
	for end := time.Now().Add(90 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		check(time.Now().Before(end), "%s", why())
	}
}
