package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
)

// store is a store that is connected to.
type store interface {
	// facts are what it tells of itself: system, durability, node and so on.
	facts() lines
	// open prepares for records of a shape. It answers what is to be told of them.
	open(shape shape) (handler, lines, error)
	close()
}

// handler does requests, many at once. An error that is no trouble becomes an error reply.
type handler interface {
	do(request request, out *reply) error
}

// connector connects to a store, as the first greeting asks.
type connector func(greeting lines) (store, error)

// shape is what a connection's requests will be about.
type shape struct {
	hash       bool
	scans      bool
	fields     [][]byte
	fieldBytes int
}

// server holds the one store that all connections share.
type server struct {
	connect connector
	mutex   sync.Mutex
	store   store
}

func (s *server) close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.store != nil {
		s.store.close()
	}
}

// serve answers a connection until it ends.
func (s *server) serve(connection net.Conn) error {
	defer func() { _ = connection.Close() }()
	reader := bufio.NewReaderSize(connection, 256<<10)
	var requests handler
	for requests == nil {
		body, err := readFrame(reader)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		answer, opened, err := s.greet(parseLines(body))
		if err != nil {
			answer = lines{{"error", err.Error()}}
		}
		if _, err := connection.Write(answer.frame()); err != nil {
			return err
		}
		requests = opened
	}
	out := &answers{to: connection}
	var under sync.WaitGroup
	defer under.Wait()
	for {
		body, err := readFrame(reader)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		parsed, err := parseRequest(body)
		if err != nil {
			return err
		}
		// As many as the laboratory has lanes.
		under.Go(func() { answer(requests, parsed, out) })
	}
}

func answer(requests handler, parsed request, out *answers) {
	var written reply
	err := requests.do(parsed, &written)
	var why trouble
	switch {
	case err == nil:
		// The laboratory may be gone; the reader notices it too.
		_ = out.send(parsed.token, outcomeReply, written.bytes)
	case errors.As(err, &why) && why.refused:
		_ = out.send(parsed.token, outcomeRefused, []byte(why.word))
	case errors.As(err, &why):
		_ = out.send(parsed.token, outcomeUnknown, []byte(why.word))
	default:
		var refusal reply
		refusal.err(strings.NewReplacer("\r", " ", "\n", " ").Replace(err.Error()))
		_ = out.send(parsed.token, outcomeReply, refusal.bytes)
	}
}

func (s *server) greet(greeting lines) (lines, handler, error) {
	if greeting.get("protocol") != protocol {
		return nil, nil, fmt.Errorf("protocol %s is not spoken here", greeting.get("protocol"))
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	told := lines{{"protocol", protocol}}
	switch what := greeting.get("what"); {
	case what == "hello" && s.store == nil:
		connected, err := s.connect(greeting)
		if err != nil {
			return nil, nil, err
		}
		s.store = connected
		return append(told, connected.facts()...), nil, nil
	case what == "open" && s.store != nil:
		wanted, err := parseShape(greeting)
		if err != nil {
			return nil, nil, err
		}
		opened, more, err := s.store.open(wanted)
		return append(told, more...), opened, err
	default:
		return nil, nil, fmt.Errorf("a greeting %q out of turn", what)
	}
}

func parseShape(greeting lines) (shape, error) {
	parsed := shape{hash: greeting.get("record") == "hash", scans: greeting.get("scans") == "true"}
	for _, name := range greeting.all("field") {
		parsed.fields = append(parsed.fields, []byte(name))
	}
	if _, err := fmt.Sscan(greeting.get("field_bytes"), &parsed.fieldBytes); err != nil || len(parsed.fields) == 0 {
		return shape{}, errors.New("the greeting names no fields, or not their size")
	}
	return parsed, nil
}
