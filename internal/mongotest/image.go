package mongotest

import (
	"os"
	"regexp"
)

// imageEnv, in the environment, names the container image of a mongod, with its
// version: "mongo:4.4". Then all servers are started from it and in no other
// way, including private ones.
const imageEnv = "DOCLOCK_TEST_IMAGE"

const defaultImage = "mongo:8"

// image is the image of containers, and whether the environment demands it.
func image() (name string, demanded bool) {
	if name := os.Getenv(imageEnv); name != "" {
		return name, true
	}
	return defaultImage, false
}

var notInFileNames = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// cacheName distinguishes the caches of different images, and so their shared
// servers.
func cacheName() string {
	name := "mongotest-" + recipe
	if image, demanded := image(); demanded {
		name += "-" + notInFileNames.ReplaceAllString(image, "-")
	}
	return name
}
