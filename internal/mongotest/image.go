package mongotest

import (
	"os"
	"regexp"
)

// imageEnv, in the environment, names the container image of a mongod, with its version: "mongo:4.4". Servers are then
// started from it and in no other way, private ones too.
const imageEnv = "DOCLOCK_TEST_IMAGE"

const defaultImage = "mongo:8"

// image is what containers are made of, and whether the environment demands it.
func image() (name string, demanded bool) {
	if name := os.Getenv(imageEnv); name != "" {
		return name, true
	}
	return defaultImage, false
}

var notInFileNames = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// cacheName tells the caches of different images apart, and so their shared servers.
func cacheName() string {
	name := "mongotest-" + recipe
	if image, demanded := image(); demanded {
		name += "-" + notInFileNames.ReplaceAllString(image, "-")
	}
	return name
}
