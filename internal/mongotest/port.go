package mongotest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// freePort picks a port below those that the system uses for outgoing
// connections (from 32768 on Linux), so that no program takes it by chance
// while a server of ours is being started or restarted. A caller that starts a
// server on the port must still check that its server got it.
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
