package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
)

// protocol is what both sides must speak.
const protocol = "1"

// frameBytesMax bounds every frame, as vocab's ADAPTER_FRAME_BYTES_MAX does on the other side.
const frameBytesMax = 256 << 20

// What a request does to the store.
const (
	accessRead = iota
	accessLeaderRead
	accessWrite
	accessRepeatable
)

// Outcomes of an answer.
const (
	outcomeReply = iota
	outcomeRefused
	outcomeUnknown
)

// request is one request. Its arguments lie in the frame that it came in.
type request struct {
	token  uint32
	access byte
	args   [][]byte
}

// trouble is why a store did not answer: refused if nothing was done, else nobody knows.
type trouble struct {
	refused bool
	// word is one of those that the laboratory knows: unreachable, disconnected, timeout, CLUSTERDOWN, LOADING.
	word string
}

func (t trouble) Error() string { return t.word }

func readFrame(from io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length > frameBytesMax {
		return nil, fmt.Errorf("a frame of %d bytes", length)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(from, body); err != nil {
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	return body, nil
}

var errDamaged = errors.New("what came is no request")

func parseRequest(body []byte) (request, error) {
	if len(body) < 9 {
		return request{}, errDamaged
	}
	parsed := request{token: binary.BigEndian.Uint32(body), access: body[4]}
	count := binary.BigEndian.Uint32(body[5:])
	rest := body[9:]
	// Each argument has its length, so there cannot be more than this.
	if count == 0 || uint64(count)*4 > uint64(len(rest)) {
		return request{}, errDamaged
	}
	parsed.args = make([][]byte, 0, count)
	for range count {
		if len(rest) < 4 {
			return request{}, errDamaged
		}
		length := binary.BigEndian.Uint32(rest)
		if uint64(length) > uint64(len(rest)-4) {
			return request{}, errDamaged
		}
		parsed.args = append(parsed.args, rest[4:4+length])
		rest = rest[4+length:]
	}
	if len(rest) > 0 {
		return request{}, errDamaged
	}
	return parsed, nil
}

// lines are the names and values of a greeting.
type lines [][2]string

func parseLines(text []byte) lines {
	var parsed lines
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "="); found {
			parsed = append(parsed, [2]string{name, value})
		}
	}
	return parsed
}

func (l lines) get(name string) string {
	for _, line := range l {
		if line[0] == name {
			return line[1]
		}
	}
	return ""
}

func (l lines) all(name string) []string {
	var values []string
	for _, line := range l {
		if line[0] == name {
			values = append(values, line[1])
		}
	}
	return values
}

func (l lines) frame() []byte {
	frame := make([]byte, 4)
	for _, line := range l {
		// A line is a line, whatever an error says.
		value := strings.NewReplacer("\n", " ", "\r", " ").Replace(line[1])
		frame = append(frame, line[0]+"="+value+"\n"...)
	}
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// answers writes answers to a connection. Whoever comes while another writes leaves its answer to that one, so that
// many answers share a write.
type answers struct {
	to      net.Conn
	mutex   sync.Mutex
	waiting []byte
	spare   []byte
	writing bool
	failed  error
}

func (a *answers) send(token uint32, outcome byte, body []byte) error {
	a.mutex.Lock()
	a.waiting = binary.BigEndian.AppendUint32(a.waiting, uint32(5+len(body)))
	a.waiting = binary.BigEndian.AppendUint32(a.waiting, token)
	a.waiting = append(a.waiting, outcome)
	a.waiting = append(a.waiting, body...)
	if a.writing {
		err := a.failed
		a.mutex.Unlock()
		return err
	}
	a.writing = true
	for len(a.waiting) > 0 && a.failed == nil {
		batch := a.waiting
		a.waiting = a.spare[:0]
		a.mutex.Unlock()
		_, err := a.to.Write(batch)
		a.mutex.Lock()
		a.spare = batch
		a.failed = err
	}
	a.writing = false
	err := a.failed
	a.mutex.Unlock()
	return err
}
