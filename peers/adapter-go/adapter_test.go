package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

func frame(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func TestRequestsLieAsDocumented(t *testing.T) {
	body := "\x00\x00\x00\x07\x02\x00\x00\x00\x02\x00\x00\x00\x03GET\x00\x00\x00\x041203"
	parsed, err := parseRequest([]byte(body))
	if err != nil || parsed.token != 7 || parsed.access != accessWrite ||
		string(bytes.Join(parsed.args, []byte(" "))) != "GET 1203" {
		t.Errorf("%+v, %v", parsed, err)
	}
	for cut := range len(body) {
		if _, err := parseRequest([]byte(body[:cut])); err == nil {
			t.Errorf("cut at %d: accepted", cut)
		}
	}
	if _, err := parseRequest([]byte(body + "x")); err == nil {
		t.Error("a byte too many was accepted")
	}
	if _, err := readFrame(bytes.NewReader([]byte{255, 255, 255, 255})); err == nil {
		t.Error("an endless frame was accepted")
	}
}

// TestTheWholeWay has the program serve a socket: greetings, requests, and its end with its standard input.
func TestTheWholeWay(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	stdin, lifeline := io.Pipe()
	stdoutReader, stdout := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run([]string{"--system", "noop+go", "--socket", socket}, stdin, stdout) }()
	ready := make([]byte, 6)
	if _, err := io.ReadFull(stdoutReader, ready); err != nil || string(ready) != "ready\n" {
		t.Fatalf("%q, %v", ready, err)
	}
	connection, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	_ = connection.SetDeadline(time.Now().Add(10 * time.Second))
	say := func(body string) string {
		if _, err := connection.Write(frame(body)); err != nil {
			t.Fatal(err)
		}
		answer, err := readFrame(connection)
		if err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
	open := "protocol=1\nwhat=open\nrecord=hash\nscans=false\nfield=f0\nfield_bytes=3\n"
	for _, step := range [][2]string{
		{"protocol=9\nwhat=hello\n", "error=protocol 9 is not spoken here\n"},
		{open, "error=a greeting \"open\" out of turn\n"},
		{"protocol=1\nwhat=hello\n", "protocol=1\nsystem=no-op adapter (Go)\nstores=nothing\n"},
		{open, "protocol=1\nscans=ordered\n"},
		{"\x00\x00\x00\x05\x00\x00\x00\x00\x02\x00\x00\x00\x07HGETALL\x00\x00\x00\x01k",
			"\x00\x00\x00\x05\x00*2\r\n$2\r\nf0\r\n$3\r\nxxx\r\n"},
		{"\x00\x00\x00\x06\x02\x00\x00\x00\x01\x00\x00\x00\x04WHAT", "\x00\x00\x00\x06\x00-UNKNOWN request WHAT\r\n"},
	} {
		if found := say(step[0]); !strings.HasPrefix(found, step[1]) {
			t.Errorf("%q is answered with %q", step[0], found)
		}
	}
	_ = connection.Close()
	_ = lifeline.Close()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it does not end with its standard input")
	}
}

func TestTroubleIsToldFromErrors(t *testing.T) {
	for _, c := range []struct {
		err      error
		expected error
	}{
		{nil, nil},
		{rpctypes.ErrNoLeader, trouble{refused: true, word: "CLUSTERDOWN"}},
		{rpctypes.ErrTooManyRequests, trouble{refused: true, word: "LOADING"}},
		{rpctypes.ErrLeaderChanged, trouble{word: "disconnected"}},
		{rpctypes.ErrTimeout, trouble{word: "timeout"}},
		{context.DeadlineExceeded, trouble{word: "timeout"}},
	} {
		if found := classified(c.err); !errors.Is(found, c.expected) {
			t.Errorf("%v: %v", c.err, found)
		}
	}
	if found := classified(rpctypes.ErrNoSpace); found == nil || !strings.HasPrefix(found.Error(), "ETCD ") {
		t.Errorf("%v", found)
	}
}

func TestPlaces(t *testing.T) {
	for _, c := range []struct{ text, endpoints, user, password string }{
		{"etcd://a:1,b:2", "a:1 b:2", "", ""},
		{"etcd://a/", "a:2379", "", ""},
		{"etcd://me:p%40ss@[::1]:5", "[::1]:5", "me", "p@ss"},
	} {
		found, err := parsePlace(c.text)
		if err != nil || strings.Join(found.endpoints, " ") != c.endpoints || found.user != c.user || found.password != c.password {
			t.Errorf("%s: %+v, %v", c.text, found, err)
		}
	}
	for _, wrong := range []string{"etcd://", "etcd://a:1,,b", "etcd://secret@a:1", "etcd://u:%zz@a:1"} {
		if _, err := parsePlace(wrong); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
