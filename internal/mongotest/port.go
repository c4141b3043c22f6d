package mongotest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// freePort picks a port below those that the system gives to outgoing connections (from 32768 on Linux), so that
// nobody takes it by chance while a server of ours is being started or is down between two lives. Whoever starts a
// server on it must still see to it that it was that server that got it.
func freePort() (int, error) {
	for range 100 {
		port := 20000 + rand.IntN(12000)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, fmt.Errorf("trying a port: %w", err)
		}
		return port, nil
	}
	return 0, errors.New("no free port among a hundred tried")
}
