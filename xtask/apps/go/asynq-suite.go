// Asynq's own tests: what passes on redis-server passes here.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"sort"
	"strings"
	"time"
)

const module = "github.com/hibiken/asynq"

// What it has of a server: the queue itself, and what lies below it.
var packages = []string{module, module + "/internal/rdb"}

// A moment in a test's name, which is another one in the next run.
var moment = regexp.MustCompile(`\([A-Z][a-z]{2}_[^)]*\)`)

// passed tells which tests pass against the server at the address.
func passed(address string) map[string]bool {
	arguments := append([]string{"test", "-json", "-p", "1", "-count", "1", "-vet", "off"}, packages...)
	command := exec.Command("go", append(arguments, "-args", "-redis_addr="+address)...)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	check(err == nil, "%v", err)
	check(command.Start() == nil, "go test does not start")
	fine := map[string]bool{}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		var event struct{ Action, Package, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &event) != nil || event.Test == "" {
			continue
		}
		switch event.Action {
		case "pass":
			fine[moment.ReplaceAllString(event.Package+" "+event.Test, "(moment)")] = true
		case "output":
			fmt.Fprint(os.Stderr, event.Output)
		}
	}
	// It fails if a test does.
	_ = command.Wait()
	return fine
}

// onRedis tells which tests pass on redis-server: found once.
func onRedis() map[string]bool {
	const known = "passed-on-redis"
	fine := map[string]bool{}
	if text, err := os.ReadFile(known); err == nil {
		for _, name := range strings.Split(string(text), "\n") {
			fine[name] = true
		}
		return fine
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err == nil, "%v", err)
	address := listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	listener.Close()
	server := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", ".")
	check(server.Start() == nil, "redis-server does not start")
	until(func() bool {
		connection, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			connection.Close()
		}
		return err == nil
	}, func() string { return "redis-server does not listen" })
	fine = passed(address)
	_ = server.Process.Kill()
	_ = server.Wait()
	check(len(fine) > 0, "no test passes on redis-server")
	names := make([]string, 0, len(fine))
	for name := range fine {
		names = append(names, name)
	}
	sort.Strings(names)
	check(os.WriteFile(known, []byte(strings.Join(names, "\n")), 0o644) == nil, "the list of tests is not written")
	return fine
}

func main() {
	// Its tests need modules that its users do not.
	get := exec.Command("go", append([]string{"get", "-t"}, packages...)...)
	get.Stderr = os.Stderr
	check(get.Run() == nil, "the modules of its tests cannot be had")
	wanted, fine := onRedis(), passed(address)
	var missing []string
	for name := range wanted {
		if !fine[name] {
			missing = append(missing, name)
		}
	}
	sort.Strings(missing)
	check(len(missing) == 0, "%d tests pass on redis-server and not here: %s", len(missing), strings.Join(missing, ", "))
	ok("%d of the %d tests that pass on redis-server", len(wanted), len(wanted))
}
