// Command adapter-go speaks to a store for `basalt bench`, through the store's own Go library.
//
// It listens on a Unix socket and prints "ready". It ends when its standard input does. docs/PEERS.md tells the
// protocol.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "adapter-go:", err)
		os.Exit(1)
	}
}

// systems are the stores that this program knows, by the scheme of their URLs.
var systems = map[string]connector{
	"etcd":    connectEtcd,
	"noop+go": connectNoop,
}

func run(args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("adapter-go", flag.ContinueOnError)
	socket := flags.String("socket", "", "the Unix socket to listen on")
	system := flags.String("system", "", "which store: etcd or noop+go")
	if err := flags.Parse(args); err != nil {
		return err
	}
	connect, known := systems[*system]
	if !known || *socket == "" || flags.NArg() > 0 {
		return errors.New("expected --system etcd or noop+go, and --socket PATH")
	}
	listener, err := net.Listen("unix", *socket)
	if err != nil {
		return err
	}
	go func() {
		// The laboratory holds the other end for as long as it lives.
		_, _ = io.Copy(io.Discard, stdin)
		_ = listener.Close()
	}()
	if _, err := fmt.Fprintln(stdout, "ready"); err != nil {
		return err
	}
	server := &server{connect: connect}
	defer server.close()
	for {
		connection, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			if err := server.serve(connection); err != nil {
				fmt.Fprintln(os.Stderr, "adapter-go:", err)
			}
		}()
	}
}
